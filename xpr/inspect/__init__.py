"""Looking at programs: their graph, a page for the browser, what changed between two of them."""
