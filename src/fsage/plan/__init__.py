"""Plan: a study on a target, its states in order with their cells, and where its results lie."""
