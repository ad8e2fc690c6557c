"""What a model needs and how fast it can be, from its `config.json`: nothing is loaded, nothing started.

`shape` reads a model's dimensions, `weights` and `kv_cache` its bytes, `devices` and `cpu_speed` what
a device can do, `roofline` the bounds that follow, `rates` what an engine was measured to do, and
`plan` puts them together.
"""
