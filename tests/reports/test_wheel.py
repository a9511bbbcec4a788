from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


def test_the_wheel_ships_the_templates():
    files = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    for name in ("report.html", "report.css", "report.js"):
        assert f"ppadmm/reports/templates/{name}" in files
    for name in ("statement", "certificate"):
        assert f"ppadmm/privacy/schemas/{name}.schema.json" in files
