"""What a project says about findings: configuration, waivers, a baseline. None of it makes a verdict better
(spec/gate.md).
"""
