//! What a name without a meaning may have been meant to be.

/// For the end of a message about it.
pub fn hint<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let near = ptx::advice::nearest(name, known);
    near.map_or(String::new(), |near| format!("; did you mean {near}?"))
}
