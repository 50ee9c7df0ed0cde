"""Make an encoder keep its vectors when words are misspelt, without labels."""
