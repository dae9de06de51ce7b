"""Texts of people and of others: read strictly and within limits, shown safely."""
