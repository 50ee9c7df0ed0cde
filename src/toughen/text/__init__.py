"""Texts as words: what may change in them, edits of words, and lists of synonyms and misspellings."""
