"""A real browser, and a page in it that nothing may complain about."""

import shutil

import pytest

from tests.small_runs import folder_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api").sync_playwright().start()
    chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    yield chromium
    chromium.close()
    playwright.stop()


@pytest.fixture
def show(browser):
    """Open the report of a run; afterwards nothing may have been complained about or requested."""
    contexts, troubles = [], []

    def watch(page, own):
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda r: r.url == own or troubles.append(r.url))

    def open_report(name, width=1200, path=None, **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        own = f"file://{path or folder_of(name) / 'report.html'}"
        watch(page, own)
        page.goto(own)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert troubles == []
