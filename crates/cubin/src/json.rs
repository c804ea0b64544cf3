//! JSON output, for all crates of the workspace: values that print themselves, keys in the order given: indented
//! (`Display`) or on one line ([`Json::compact`]).
//!
//! It is written here and not taken from a crate: it is a page of code without a derive, the order of keys is that of
//! the code, and `cubin` stays without dependencies.

use std::fmt::Write;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number that has no sign.
    Number(u64),
    /// A number.
    Signed(i64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(&'static str, Json)>),
}

/// A text in quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_text(&mut out, text);
    out
}

impl Json {
    /// A string.
    pub fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    /// An array of what `json` makes of each item.
    pub fn list<T>(items: &[T], json: impl Fn(&T) -> Json) -> Json {
        Json::List(items.iter().map(json).collect())
    }

    /// The value in one line without blanks.
    pub fn compact(&self) -> String {
        let mut out = String::new();
        self.write_compact(&mut out);
        out
    }

    fn write_compact(&self, out: &mut String) {
        match self {
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.push(if index == 0 { '[' } else { ',' });
                    item.write_compact(out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Json::Object(fields) => {
                for (index, (key, value)) in fields.iter().enumerate() {
                    out.push(if index == 0 { '{' } else { ',' });
                    write_text(out, key);
                    out.push(':');
                    value.write_compact(out);
                }
                out.push_str(if fields.is_empty() { "{}" } else { "}" });
            }
            single => single.write(out, 0),
        }
    }

    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(value) => out.push_str(&value.to_string()),
            Json::Signed(value) => out.push_str(&value.to_string()),
            Json::Text(text) => write_text(out, text),
            Json::List(items) => write_items(out, depth, ['[', ']'], items, |out, item, depth| {
                item.write(out, depth);
            }),
            Json::Object(fields) => {
                write_items(out, depth, ['{', '}'], fields, |out, (key, value), depth| {
                    write_text(out, key);
                    out.push_str(": ");
                    value.write(out, depth);
                })
            }
        }
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        self.write(&mut out, 0);
        f.write_str(&out)
    }
}

/// One item per line, indented.
fn write_items<T>(
    out: &mut String,
    depth: usize,
    brackets: [char; 2],
    items: &[T],
    write_item: impl Fn(&mut String, &T, usize),
) {
    out.push(brackets[0]);
    for (index, item) in items.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        write_item(out, item, depth + 1);
    }
    if !items.is_empty() {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    }
    out.push(brackets[1]);
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Writing to a string can't fail.
            c if (c as u32) < 0x20 => write!(out, "\\u{:04x}", c as u32).unwrap_or_default(),
            c => out.push(c),
        }
    }
    out.push('"');
}
