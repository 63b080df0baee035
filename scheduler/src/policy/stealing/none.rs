//! None: every task stays with the pilot that got it.

pub(super) fn is_light() -> bool {
    false
}
