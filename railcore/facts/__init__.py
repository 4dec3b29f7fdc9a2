"""Facts with their sources: units, files, the catalog of parts and the ledger of claims."""
