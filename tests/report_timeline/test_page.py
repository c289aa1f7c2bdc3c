"""The page in a real browser: a headless Chromium, driven as a reader would."""

import json

import pytest

from interlock.cli.compare import table
from interlock.report.timeline import html
from report_timeline.scenes import REGIONS, SPLIT, STUCK, drawn, measured, pipeline

NOTHING = STUCK.replace("0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0", "0RECV_B0 0F0 0SEND_F0 0B0 0F1 0SEND_F1")
DESKTOP, PHONE = {"width": 1280, "height": 720}, {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Pages by name, made once."""
    folder = tmp_path_factory.mktemp("pages")
    made = {}

    def write(name: str):
        if name not in made:
            text = {
                "regions": lambda: html.render(drawn(REGIONS)),
                "stuck": lambda: html.render(drawn(STUCK, "blocking")),
                "nothing": lambda: html.render(drawn(NOTHING, "blocking")),
                "full": lambda: html.render(drawn(pipeline("full", capacity="4GiB"))),
                "eight": lambda: html.render(drawn(pipeline("eight", 8, 16, layers=32), "pair")),
                "overlaps": lambda: html.render(drawn(SPLIT.replace("SKELETON", "dualpipev"))),
                "measured": lambda: html.render(measured(pipeline())),
                "steady": lambda: html.render(drawn(pipeline("steady", microbatches=24))),
                "beside": lambda: html.compare(
                    two := [drawn(pipeline(), "pair"), measured(pipeline())], table(two)
                ),
                "two": lambda: html.compare(
                    two := [drawn(pipeline()), drawn(pipeline("gpipe", skeleton="gpipe"))], table(two)
                ),
                "many": lambda: html.render(drawn(pipeline("many", 8, 2100, layers=32), "pair")),
            }[name]()
            made[name] = folder / f"{name}.html"
            made[name].write_text(text, encoding="utf-8")
        return made[name]

    return write


@pytest.fixture
def opened(browser, written):
    """Opens a page; fails at the end if anything was complained about, or asked of the network."""
    contexts, complaints = [], []

    def open_(name: str, **options):
        context = browser.new_context(**{"viewport": DESKTOP, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text))
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("request", lambda r: complaints.append(r.url) if not r.url.startswith("file:") else None)
        page.goto(written(name).as_uri())
        page.wait_for_function("window.interlock && window.interlock.state().painted > 0", timeout=60_000)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def state(page) -> dict:
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.evaluate("window.interlock.state()")


def middle(page, operation: str) -> tuple[float, float]:
    """The middle of an operation's box, on the screen."""
    box = page.evaluate("text => window.interlock.place(text)", operation)
    canvas = page.locator("#view").bounding_box()
    return canvas["x"] + box["x"] + box["w"] / 2, canvas["y"] + box["y"] + box["h"] / 2


def pixels(page, *operations: str) -> list[list[int]]:
    """The colours near the left edges of operations' boxes, where no text is."""
    return page.evaluate(
        """names => { const c = document.getElementById("view"), k = devicePixelRatio, all = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return names.map(n => { const p = window.interlock.place(n), at = 4 * (Math.round((p.y + 4) * k) * c.width + Math.round((p.x + 4) * k)); return [...all.slice(at, at + 3)]; }); }""",
        operations,
    )


def test_boxes_have_the_colours_of_region_and_kind(opened):
    page = opened("regions")
    assert state(page)["ranks"] == 2 and state(page)["drawn"] >= 48
    assert pixels(page, "1F1", "1B1", "0F1", "0B1") == [
        [0x56, 0xB4, 0xE9],
        [0x00, 0x72, 0xB2],
        [0xE6, 0x9F, 0x00],
        [0xC0, 0x4F, 0x00],
    ]


def test_zoom_by_wheel_buttons_and_keys(opened):
    page = opened("eight")
    all_of_it = state(page)
    x, y = middle(page, "3F4")
    page.mouse.move(x, y)
    page.mouse.wheel(0, -400)
    wheeled = state(page)
    assert wheeled["scale"] > 1.5 * all_of_it["scale"]
    assert abs(middle(page, "3F4")[0] - x) < 12  # it grows about the pointer
    page.click("#in")
    assert state(page)["scale"] > wheeled["scale"]
    page.click("#fit")
    assert state(page)["scale"] == pytest.approx(all_of_it["scale"])
    page.focus("#view")
    page.keyboard.press("+")
    assert state(page)["scale"] == pytest.approx(1.5 * all_of_it["scale"])
    page.keyboard.press("-")
    page.keyboard.press("-")
    assert state(page)["scale"] == pytest.approx(all_of_it["scale"])  # never less than all of it


def test_pan_by_drag_and_keys(opened):
    page = opened("eight")
    page.focus("#view")
    for _ in range(4):
        page.keyboard.press("+")
    before = state(page)
    x, y = 640, 400
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 200, y, steps=4)
    page.mouse.up()
    after = state(page)
    assert after["t0"] - before["t0"] == pytest.approx(200 / before["scale"], rel=1e-6)
    page.keyboard.press("ArrowLeft")
    assert state(page)["t0"] < after["t0"]
    page.keyboard.press("End")
    assert state(page)["t1"] >= drawn(pipeline("eight", 8, 16, layers=32), "pair").makespan


def test_the_card_tells_of_what_is_under_the_pointer(opened):
    page = opened("regions")
    assert page.locator("#card").is_hidden()
    page.mouse.move(*middle(page, "2B1"))
    page.wait_for_selector("#card:not([hidden])")
    text = page.locator("#card").inner_text()
    for part in (
        "2B1",
        "backward",
        "backbone",
        "stage 2",
        "rank",
        "ms",
        "GiB",
        "critical path",
        "1f1b.sched:",
    ):
        assert part in text, part
    page.mouse.move(*middle(page, "1SEND_F0"))
    assert "2RECV_F0" in page.locator("#card").inner_text() and "24 MiB" in page.locator("#card").inner_text()
    x, y = middle(page, "1B0")
    page.mouse.move(x - 160, y)
    assert "bubble" in page.locator("#card").inner_text()
    page.mouse.move(640, 60)
    page.wait_for_selector("#card", state="hidden")


def test_search_jumps(opened):
    page = opened("eight")
    page.keyboard.press("/")
    page.keyboard.type("5B7")
    page.keyboard.press("Enter")
    found = state(page)
    assert (found["found"], found["chosen"]) == (1, "5B7") and "1 of 1" in page.locator("#found").inner_text()
    assert "5B7" in page.locator("#card").inner_text() and "5B7" in page.locator("#live").inner_text()
    x, _ = middle(page, "5B7")
    assert 0 < x < DESKTOP["width"]
    counts = {}
    for query in ("mb 3", "rank 2", "stage 1", "f2", "critical", "decoder", "nothing"):
        page.fill("#find", query)
        counts[query] = state(page)["found"]
    assert counts == {
        "mb 3": 16 + 28,
        "rank 2": counts["rank 2"],
        "stage 1": counts["stage 1"],
        "f2": 8,
        "critical": counts["critical"],
        "decoder": counts["decoder"],
        "nothing": 0,
    }
    assert counts["rank 2"] >= 32 + 64 and counts["stage 1"] >= 32 and counts["critical"] > 8
    assert page.locator("#found").inner_text() == "none"


def test_the_keyboard_reaches_every_operation(opened):
    page = opened("regions")
    page.focus("#view")
    page.keyboard.press(".")
    first = state(page)["chosen"]
    page.keyboard.press(".")
    second = state(page)["chosen"]
    assert first and second and first != second
    page.keyboard.press(",")
    assert state(page)["chosen"] == first
    page.keyboard.press("ArrowDown")
    assert state(page)["chosen"] not in (None, first)
    page.keyboard.press("Escape")
    assert state(page)["chosen"] is None and page.locator("#card").is_hidden()


def test_dark_and_light(opened):
    def ground(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    page = opened("regions", color_scheme="dark")
    assert state(page)["theme"] == "dark" and ground(page) == "rgb(20, 22, 26)"
    page.click("#theme")
    assert state(page)["theme"] == "light" and ground(page) == "rgb(255, 255, 255)"
    page = opened("regions", color_scheme="light")
    assert state(page)["theme"] == "light"
    page.emulate_media(color_scheme="dark")
    assert state(page)["theme"] == "dark"


def test_on_a_phone(opened):
    page = opened("eight", viewport=PHONE, has_touch=True, device_scale_factor=2)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.locator("#view").bounding_box()["height"] > 0.45 * PHONE["height"]
    assert all(page.locator(f"#{b}").bounding_box()["height"] >= 36 for b in ("in", "out", "fit", "theme"))
    page.touchscreen.tap(*middle(page, "0B0"))
    assert "0B0" in page.locator("#card").inner_text()
    box = page.locator("#card").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]


def test_two_fingers_zoom(opened):
    page = opened("eight", viewport=PHONE, has_touch=True)
    before = state(page)["scale"]
    session = page.context.new_cdp_session(page)
    y = page.locator("#view").bounding_box()["y"] + 120

    def touch(kind, *xs):
        return session.send(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": [{"x": x, "y": y, "id": i} for i, x in enumerate(xs)]},
        )

    touch("touchStart", 180, 220)
    for d in (10, 30, 60, 90):
        touch("touchMove", 180 - d, 220 + d)
    touch("touchEnd")
    assert state(page)["scale"] > 2 * before


def test_a_deadlock_is_drawn_and_told(opened):
    page = opened("stuck")
    assert page.locator(".badge").inner_text() == "invalid"
    steps = page.locator(".cycle li")
    assert steps.count() == 2 and "0SEND_F1 waits for 1RECV_F1" in steps.first.inner_text()
    page.mouse.move(*middle(page, "1RECV_F1"))
    assert "never runs" in page.locator("#card").inner_text()
    steps.first.locator("button").click()
    assert state(page)["chosen"] == "0SEND_F1"
    assert page.locator("#critical").is_hidden()


def test_where_nothing_runs_the_circle_fills_the_page(opened):
    page = opened("nothing")
    page.mouse.move(*middle(page, "0RECV_B0"))
    assert "never runs" in page.locator("#card").inner_text() and page.locator(".cycle li").count() == 2


def test_too_much_memory_is_marked(opened):
    page = opened("full")
    assert "peak memory" in page.locator("dl").inner_text() and "IL501" in page.locator(".notes").inner_text()
    page.click("#memory")
    assert page.get_attribute("#memory", "aria-pressed") == "false"


def test_schedules_side_by_side(opened):
    page = opened("two")
    assert state(page)["ranks"] == 4 and page.locator("table.data").first.locator("tbody tr").count() == 2
    first, second = (page.evaluate("n => window.interlock.place('0F0', n)", n) for n in (0, 1))
    assert first["x"] == second["x"] and first["w"] == pytest.approx(second["w"]) and first["y"] < second["y"]


def test_a_measured_run(opened):
    page = opened("measured")
    assert (
        "small (measured)" in page.locator("h1").inner_text()
        and "steady period" not in page.locator("dl").inner_text()
    )
    assert page.locator("#critical").is_hidden()
    page.mouse.move(*middle(page, "0B1"))
    assert (
        "0B1" in page.locator("#card").inner_text()
        and "critical path" not in page.locator("#card").inner_text()
    )


def test_a_measured_run_beside_its_schedule(opened):
    page = opened("beside")
    head, rows = (
        page.locator("table.data").first.locator(f"{part} tr").all_inner_texts()
        for part in ("thead", "tbody")
    )
    assert (
        "steady period" in head[0]
        and rows[0].startswith("small\t")
        and rows[1].startswith("small (measured)\t")
    )
    predicted, ran = (page.evaluate("n => window.interlock.place('1F0', n)", n) for n in (0, 1))
    assert ran["x"] > predicted["x"] and ran["w"] == pytest.approx(1.1 * predicted["w"], rel=0.02)


def test_the_steady_period_is_told(opened):
    assert "36.63 ms a microbatch (73.25 ms every 2)" in opened("steady").locator("dl").inner_text()


def test_every_control_has_a_name(opened):
    page = opened("overlaps")
    for control in page.locator("button, input, canvas[tabindex]").all():
        assert control.get_attribute("aria-label") or control.inner_text().strip()
    assert page.evaluate("document.documentElement.lang") == "en"


def test_a_hundred_thousand_operations(opened, written):
    written("many")
    page = opened("many")
    assert state(page)["drawn"] > 8_000
    page.evaluate("""async () => { const c = document.getElementById("view");
        for (let i = 0; i < 10; i++) { c.dispatchEvent(new WheelEvent("wheel", { deltaY: -60, clientX: 600, clientY: 400, cancelable: true })); await new Promise(requestAnimationFrame); } }""")
    page.evaluate("window.interlock.find('3F1999')")
    assert state(page)["chosen"] == "3F1999"
    rows = json.loads(
        page.locator("#data").evaluate(
            "e => JSON.stringify(JSON.parse(e.textContent).scenes[0].columns.kind.n || "
            "atob(JSON.parse(e.textContent).scenes[0].columns.kind.b).length)"
        )
    )
    assert rows > 90_000
