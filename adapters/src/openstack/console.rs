//! Consoles: what a server wrote is known as long as it is there, and is the only thing that says why no pilot came.

use serde_json::json;

use super::{
    OpenStack, Remains, locked,
    servers::{self, Server},
    wire::{Call, Trouble},
};

/// Lines of a server's console that are kept.
const N_LINES: u32 = 50;
/// A console that cannot be read is asked for so often before its server is deleted unread.
const N_TRIES_MAX: u8 = 3;

/// What is known of a server's console.
pub(super) enum Console {
    Read(String),
    ReadBefore,
    /// The cloud may say it when it is asked again.
    Later,
}

impl OpenStack {
    /// The end of what a server wrote, once.
    pub(super) async fn console(&self, id: &str) -> Console {
        let n_tries = locked(&self.read).get(id).copied().unwrap_or(0);
        if n_tries == u8::MAX {
            return Console::ReadBefore;
        }
        let answer = self.wrote(id).await;
        let is_passing = matches!(
            answer,
            Err(Trouble::Busy(_) | Trouble::Later(_) | Trouble::Away(_) | Trouble::Unknown(_))
        );
        let is_later = is_passing && n_tries + 1 < N_TRIES_MAX;
        locked(&self.read).insert(id.to_owned(), if is_later { n_tries + 1 } else { u8::MAX });
        match answer {
            _ if is_later => Console::Later,
            // Not every cloud lets members read it.
            answer => Console::Read(answer.unwrap_or_default()),
        }
    }

    /// What a server leaves that is about to be deleted, whatever it does; `None`: nothing, or it was read before.
    pub(super) async fn last_words(&self, server: &Server) -> Option<Remains> {
        let was_read = locked(&self.read).get(&server.id) == Some(&u8::MAX);
        // Without a tag, nobody knows whose words they are.
        if was_read || server.is_leaving || !server.has_console() || server.tag.is_empty() {
            return None;
        }
        let Server { id, tag, fault, .. } = server.clone();
        // It is deleted all the same.
        let console = self.wrote(&id).await.unwrap_or_default();
        (!console.trim().is_empty()).then_some(Remains { tag, id, fault, console })
    }

    async fn wrote(&self, id: &str) -> Result<String, Trouble> {
        let body = json!({ "os-getConsoleOutput": { "length": N_LINES } });
        let answer = self.call(Call::post(servers::SERVICE, format!("/servers/{id}/action"), body)).await?;
        Ok(servers::without_tokens(answer["output"].as_str().unwrap_or_default()))
    }
}
