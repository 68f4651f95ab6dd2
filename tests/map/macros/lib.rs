// SPDX-License-Identifier: GPL-2.0

//! A stand-in for `#[pin_data]`: on the host nothing is pinned.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Takes the `#[pin]` off the fields of a structure, and changes nothing else.
#[proc_macro_attribute]
pub fn pin_data(_: TokenStream, item: TokenStream) -> TokenStream {
    strip(item)
}

fn strip(tokens: TokenStream) -> TokenStream {
    let mut out: Vec<TokenTree> = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) if is_pin(&group) => {
                // The `#` before it.
                out.pop();
            }
            TokenTree::Group(group) => {
                let inside = strip(group.stream());
                out.push(Group::new(group.delimiter(), inside).into());
            }
            token => out.push(token),
        }
    }
    out.into_iter().collect()
}

fn is_pin(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket && group.stream().to_string() == "pin"
}
