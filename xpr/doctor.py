"""`python -m xpr.doctor` says which platforms, plugins and devices were found, and why not others."""

from xpr.api.doctor import report

if __name__ == "__main__":
    print(report())
