//! Tells the sources for which version of Python they are compiled (`cfg(Py_3_12)` and its like).

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
