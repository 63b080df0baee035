//! None: every task stays with the pilot that it was given to.

pub(super) fn is_light() -> bool {
    false
}
