//! JSON output: values that print themselves, keys in the order given.

use std::fmt::Write;

pub enum Json {
    Null,
    Bool(bool),
    Number(u64),
    Signed(i64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    pub fn list<T>(items: &[T], json: impl Fn(&T) -> Json) -> Json {
        Json::List(items.iter().map(json).collect())
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
