//! `cuobjdump`.
use crate::Answer;
/// How it is called.
pub const USAGE: &str = "";
/// The command.
pub fn run(_words: &[String]) -> Result<Answer, String> {
    Err("cuobjdump: not supported".into())
}
