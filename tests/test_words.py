"""`.ci/lint-words` reads what a person reads of a module: messages and help, not docstrings and data."""

from __future__ import annotations

from records import LINT as lint

MODULE = '''
"""A docstring of a module."""
NAMES = """
several names that stand for data only
"""

@app.command(name="x")
def command():
    """Measure the cells of a study."""
    raise ValueError(f"target {name} is in use by run {run}: " "wait for its end. It goes on.")
'''


def test_messages_and_help_are_read_and_nothing_else():
    found = [(sentence.line, sentence.text.replace(lint.CODE, "X")) for sentence in lint.messages(MODULE)]
    assert sorted(found) == [
        (2, "A docstring of a module."),
        (9, "Measure the cells of a study."),
        (10, "It goes on."),
        (10, "target X is in use by run X: wait for its end."),
    ]
    assert [problem.text for problem in lint.problems(list(lint.messages(MODULE)))] == [
        "'goes on': resume, continue: It goes on."
    ]
    assert [sentence.text for sentence in lint.template("<p>{{ n }} samples were measured on this target.</p>")] == [
        f"{lint.CODE} samples were measured on this target."
    ]


def test_a_page_that_reads_like_a_telegram_is_refused():
    """Short sentences in a row, and a page that is short on average; a list of them, or one with code, is neither."""

    def faults(page: str) -> list[str]:
        return [problem.text.partition(":")[0] for problem in lint.clipped(list(lint.sentences(page)))]

    short = "It reads the source. Nothing is changed. The answer is printed."
    joined = "It reads the source and prints the answer, so nothing on the device is changed by it."
    assert faults(f"{joined}\n\n{short}") == ["3 short sentences in a row"]
    assert faults("- It reads.\n- It prints.\n- It ends.") == []
    assert faults("\n\n".join([joined, "It reads the source."] * 5)) == ["10.5 words a sentence (at least 11)"]
    assert faults("\n\n".join([joined] * 10)) == []
