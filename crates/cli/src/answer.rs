//! What a command beside compiling prints, and the exit code that goes with it.

pub struct Answer {
    pub text: String,
    pub code: u8,
}

impl From<String> for Answer {
    fn from(text: String) -> Answer {
        Answer { text, code: 0 }
    }
}
