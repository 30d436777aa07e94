"""The quickstart: lives the sample life in a real memory, then asks it questions."""
