//! Submissions that are repeated when their answer got lost.

use std::time::Duration;

use crate::{client::ClientError, failure::Failure};

/// A submission whose answer got lost is repeated so often; its key makes the repetition harmless.
const N_ATTEMPTS: u32 = 3;
const ATTEMPT_DELAY: Duration = Duration::from_secs(1);

/// Submits what has a key, again when the answer got lost.
///
/// # Errors
/// A refusal, or a manager that stays away.
pub async fn until_answered<T>(submit: impl AsyncFn() -> Result<T, ClientError>) -> Result<T, Failure> {
    let mut n_attempts = 1;
    loop {
        match submit().await {
            Ok(submitted) => return Ok(submitted),
            Err(error) if error.is_passing() && n_attempts < N_ATTEMPTS => n_attempts += 1,
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(ATTEMPT_DELAY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{N_ATTEMPTS, until_answered};
    use crate::client::ClientError;

    #[tokio::test]
    async fn what_gets_no_answer_is_submitted_again_and_what_is_not_understood_is_not() {
        let n_asked = Cell::new(0);
        let away =
            || ClientError::Unreachable { url: "here".into(), cause: "lost".into(), is_refused: false };
        let answered = until_answered(async || {
            n_asked.set(n_asked.get() + 1);
            if n_asked.get() < N_ATTEMPTS { Err(away()) } else { Ok(7) }
        });
        assert_eq!((answered.await.ok(), n_asked.replace(0)), (Some(7), N_ATTEMPTS));
        let refused = until_answered::<()>(async || {
            n_asked.set(n_asked.get() + 1);
            Err(ClientError::NotUnderstood { url: "here".into(), cause: "a page".into() })
        });
        assert!(refused.await.is_err());
        assert_eq!(n_asked.get(), 1);
    }
}
