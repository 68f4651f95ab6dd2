// SPDX-License-Identifier: GPL-2.0

//! Kinds of volumes, a test for each.

/// One test a kind of volume, which calls `all` with it.
macro_rules! volumes {
    ($(
        $name:ident: $block:literal, $size:literal, $features:literal, $options:expr
        $(, $hash:expr)?;
    )*) => {
        $(
            #[test]
            fn $name() {
                #[allow(unused_mut, unused_assignments)]
                let mut hash = ("half_md4", false);
                $( hash = $hash; )?
                let config = $crate::common::image::Config {
                    name: stringify!($name),
                    block: $block,
                    size: $size,
                    features: $features,
                    options: &$options,
                    hash,
                };
                all(&config);
            }
        )*
    };
}
