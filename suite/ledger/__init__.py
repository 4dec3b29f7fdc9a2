"""The ledger: claims of the documents, what comes out, and what each verdict rests on."""
