"""What a run does at a site with one kind of target alone: a module a kind, found by the kind's name."""
