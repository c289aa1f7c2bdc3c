from interlock.report.diagnostics import render
from interlock.text.finding import Finding, Mark
from interlock.text.source import Sources, Span


def shown(source, *labels, width=80, **fields):
    """Labels: (text to point at, label). Found by its first occurrence."""
    sources = Sources()
    base = sources.add("vlm.sched", source).base
    marks = tuple(Mark(Span(base + source.index(what), len(what)), label) for what, label in labels)
    return render(Finding.of_input("IL402", "a message", marks, **fields), sources, "vlm.sched", width=width)


def test_the_example_of_the_language():
    lines = (
        "\n" * 30 + "  rank 0: 2SEND_F1 0F2 0SEND_F2 2RECV_B0 2B0\n  rank 1: 3RECV_F1 3SEND_B0 ... 1RECV_F2\n"
    )
    assert shown(
        lines,
        ("0SEND_F2", "rank 0 sends 0F2; rank 1 receives it only after"),
        ("3SEND_B0", "this, which rank 0 receives only after its own send"),
        help="receive 2B0 before sending 0F2, or put the two in one launch { }",
        width=100,
    ) == [
        "error[IL402]: a message",
        "  --> vlm.sched:31:24",
        "   |",
        "31 |   rank 0: 2SEND_F1 0F2 0SEND_F2 2RECV_B0 2B0",
        "   |                        ^^^^^^^^ rank 0 sends 0F2; rank 1 receives it only after",
        "32 |   rank 1: 3RECV_F1 3SEND_B0 ... 1RECV_F2",
        "   |                    -------- this, which rank 0 receives only after its own send",
        "   = help: receive 2B0 before sending 0F2, or put the two in one launch { }",
    ]


def test_several_labels_on_a_line_hang_below_it():
    assert shown("a bb ccc\n", ("a", "first"), ("bb", "second"), ("ccc", "third"))[3:] == [
        "1 | a bb ccc",
        "  | ^ -- --- third",
        "  | | |",
        "  | | second",
        "  | first",
    ]


def test_labels_of_one_place_follow_each_other():
    assert shown("abc\n", ("abc", "one"), ("abc", "two"))[3:] == [
        "1 | abc",
        "  | ^^^ two",
        "  | |",
        "  | one",
    ]


def test_lines_far_apart_are_parted():
    told = shown(
        "one\n" * 2 + "two\n" + "x\n" * 5 + "three\nx\nfour\n", ("two", "a"), ("three", "b"), ("four", "c")
    )
    assert told[3:] == [
        " 3 | two",
        "   | ^^^ a",
        "...",
        " 9 | three",
        "   | ----- b",
        "10 | x",
        "11 | four",
        "   | ---- c",
    ]


def test_a_long_line_is_cut_about_the_places():
    line = "rank 0: " + " ".join(f"0F{i}" for i in range(20_000))
    told = shown(line + "\n", (" 0F9000", "here"), ("0F19999", "there"))
    assert (
        told[3].startswith("1 | rank 0: ... 0F8")
        and " 0F9000 " in told[3]
        and told[3].endswith("0F19999")
        and len(told[3]) <= 80
    )
    marks = told[4]
    assert (
        told[3][marks.index("^") :].startswith(" 0F9000") and told[3][marks.index("-------") :] == "0F19999"
    )


def test_one_long_word_is_cut_too():
    told = shown("x" * 100_000 + "\n", ("x" * 100_000, "all of it"))
    assert max(map(len, told)) <= 90


def test_control_characters_are_harmless():
    told = "\n".join(shown("\ta\x1b[31m\u202eb\x00\r\n", ("b", "a\x1b[2J"), detail=("n\x07",), help="h\x1b"))
    assert "\x1b" not in told and "\u202e" not in told and "\x07" not in told and "\x00" not in told
    assert "    a\\x1b[31m\\u202eb\\x00" in told


def test_carets_stand_under_wide_characters():
    told = shown("层 F0\n", ("F0", "here"))
    assert told[3:] == ["1 | 层 F0", "  |    ^^ here"]  # two columns and a blank


def test_two_sources():
    sources = Sources()
    a, b = sources.add("a.sched", "use b\n"), sources.add("std/b.sched", "\n  rank r\n")
    told = render(
        Finding.of_input(
            "IL2", "m", (Mark(Span(a.base + 4, 1), "used"), Mark(Span(b.base + 3, 4), "written"))
        ),
        sources,
        "a.sched",
    )
    assert told[1] == " --> a.sched:1:5" and " ::: std/b.sched:2:3" in told


def test_places_beyond_the_end():
    sources = Sources()
    source = sources.add("a", "ab")
    assert render(Finding.of_input("IL1", "m", (Mark(Span(source.base + 2, 5), "end"),)), sources, "a")[
        3:
    ] == [
        "1 | ab",
        "  |   ^ end",
    ]
    assert render(Finding.of_input("IL1", "m"), sources, "a\x1b") == ["error[IL1]: m", " --> a\\x1b"]


def test_places_of_several_lines_are_marked_on_the_first():
    assert shown("ab {\n c\n}\n", ("{\n c\n}", "block"))[3:] == ["1 | ab {", "  |    ^ block"]
