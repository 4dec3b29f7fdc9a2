// Search: questions and tasks first, those whose title or file has most of the words before others.
// The ledger, which has every word, and pages that list all of something come last.
var Scorer = {
  score: ([page, title, , , score]) => {
    const stemmer = new Stemmer()
    const stems = text => splitQuery(text.toLowerCase()).flatMap(word => [word, ...word.split(/[-_]/)])
      .map(word => stemmer.stemWord(word))
    const named = new Set(stems(`${title} ${page}`))
    const asked = new Set(stems(new URLSearchParams(location.search).get("q")))
    const lists = /^(index|reproduction|changelog|api|plans|notebooks|guide\/python|notebooks\/00_index)$/.test(page)
    const answers = /^(guide|notebooks)\//.test(page)
    const kind = lists ? -8 : page === "guide/first_plan" ? 5 : answers ? 4 : 0
    return score + 3 * [...asked].filter(word => named.has(word)).length + kind
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,  // as Sphinx has them
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
}
