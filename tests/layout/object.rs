// SPDX-License-Identifier: GPL-2.0

//! Compiled as the kernel compiles it, the crate refers to no panic function: the compiler has
//! proved of every addition, index and slice that it is in range.

use std::path::Path;
use std::process::Command;

#[test]
fn no_panics() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ext4rs/layout/lib.rs");
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layout.o");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(rustc)
        .args([
            "--edition=2021",
            "--crate-type=rlib",
            "--crate-name=ext4rs_layout",
        ])
        .args([
            "-Copt-level=2",
            "-Coverflow-checks=on",
            "-Cdebug-assertions=off",
        ])
        .args([
            "-Cpanic=abort",
            "-Ccodegen-units=1",
            "-Cembed-bitcode=no",
            "-Cdebuginfo=0",
        ])
        .arg(format!("--emit=obj={}", object.display()))
        .arg(source)
        .status()
        .expect("rustc runs");
    assert!(done.success());
    let bytes = std::fs::read(&object).expect("the object is there");
    let text = String::from_utf8_lossy(&bytes);
    // Names of symbols are in the object as they are, if only mangled.
    assert!(
        text.contains("GroupDesc"),
        "the object holds the crate's symbols"
    );
    for symbol in [
        "9panicking",
        "panic_bounds_check",
        "slice_index_fail",
        "slice_end_index",
    ] {
        assert!(!text.contains(symbol), "the object refers to {symbol}");
    }
}
