//! Which answers of a server of HTTP say that a file came, or that one was taken. Others that sound like a success hold no
//! file, or promise one.

/// What is wrong with an answer to who wants a file; `None`: it is the file, or the part of it that was asked for.
pub fn is_no_file(status: u16, is_part_wanted: bool) -> Option<&'static str> {
    match status {
        200 => None,
        206 if is_part_wanted => None,
        206 => Some("a part of the file, which nobody asked for"),
        // It may be there the next time.
        202 => Some("the file is not there yet"),
        _ if (200..300).contains(&status) => Some("no file; one comes with 200"),
        _ => Some("no file"),
    }
}

/// What is wrong with an answer to who has sent a file; `None`: the server has it.
///
/// Only 200, 201 and 204 say so. 202 is for who may still drop it, 207 has what became of it in its body, and a
/// redirection leads to where the file is not sent: followed, it is a question of another kind, and the page that answers it
/// says nothing of the file.
pub fn is_not_taken(status: u16) -> Option<&'static str> {
    match status {
        200 | 201 | 204 => None,
        300..400 => Some("a file is only sent to the address that takes it"),
        _ => Some("the server has the file only if it answers 200, 201 or 204"),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_no_file, is_not_taken};

    #[test]
    fn few_answers_say_that_a_file_came_or_was_taken() {
        let files: Vec<u16> = (100..600).filter(|status| is_no_file(*status, false).is_none()).collect();
        assert_eq!(files, [200]);
        let parts: Vec<u16> = (100..600).filter(|status| is_no_file(*status, true).is_none()).collect();
        assert_eq!(parts, [200, 206]);
        let taken: Vec<u16> = (100..600).filter(|status| is_not_taken(*status).is_none()).collect();
        assert_eq!(taken, [200, 201, 204]);
    }
}
