"""What `ppadmm doctor` found, as lines to read."""

from ppadmm.doctor import Findings


def doctor_text(found: Findings) -> str:
    """Return the findings, the verdict last."""
    return "\n".join(
        [
            f"ppadmm {found.version}, Python {found.python}, {found.platform}",
            f"  needs          {_packages(found)}",
            f"  kernel         {found.kernel}",
            *_extras(found),
            *_data(found),
            *_noise(found),
            "",
            *_verdict(found),
        ]
    )


def _packages(found: Findings) -> str:
    return ", ".join(f"{name} {number or '(absent)'}" for name, number in found.packages.items())


def _extras(found: Findings) -> list[str]:
    lines = ["", "Extras (pip install 'ppadmm[NAME]')"]
    for name, extra in found.extras.items():
        state = f"{extra['package']} {extra['version']}" if extra["present"] else "not installed"
        lines.append(f"  {name:<14} {state:<24} {extra['for']}")
    return lines


def _data(found: Findings) -> list[str]:
    where = found.data_dir or "no folder (give --data-dir or PPADMM_DATA)"
    here = ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in found.data.items())
    return ["", f"Data sets in {where}", f"  {here}"]


def _noise(found: Findings) -> list[str]:
    lines = ["", "Secure noise"]
    for look in found.noise:
        verdict = "as it should be" if look.passed else "NOT as it should be"
        lines.append(f"  {look.name:<22} p = {look.p_value:<10.3g} {verdict} ({look.test})")
    return lines


def _verdict(found: Findings) -> list[str]:
    if found.well:
        return ["All is well, as far as was looked."]
    return [f"Problem: {problem}." for problem in found.problems]
