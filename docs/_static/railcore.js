// A link to a heading opens what is folded below it, such as the claims of a count in the ledger.
function unfold() {
  const section = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("section")
  section?.querySelectorAll(":scope > details").forEach(fold => { fold.open = true })
}
addEventListener("hashchange", unfold)
addEventListener("DOMContentLoaded", unfold)
