//! Which join documents of a platform may be in files, and which of those belong to nobody any more.

use std::collections::BTreeMap;

use scheduler::time::{Span, Time};

/// The join documents of a platform's allocations, by their tags. An allocation of an earlier manager, or of before the
/// platform was changed, may have one whatever the platform is now.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// Those that may be there, and when each allocation was submitted, or was last listed or known.
    there: BTreeMap<String, Time>,
    /// Allocations that were submitted without one, with the same.
    without: BTreeMap<String, Time>,
    /// Whether those that managers of before have left were looked for.
    pub(crate) is_swept: bool,
}

impl Documents {
    /// An allocation was submitted at that time, with its document in a file or without.
    pub(crate) fn submitted(&mut self, tag: String, has_file: bool, at: Time) {
        let kept = if has_file { &mut self.there } else { &mut self.without };
        kept.insert(tag, at);
    }

    /// Allocations with these tags are listed, or the engine knows them: they may begin still. `asked_at`: when the listing
    /// was asked for. Gives those whose documents are to go, as nobody has known them for longer than a listing is late.
    pub(crate) fn unwanted<'t>(
        &mut self,
        tags: impl IntoIterator<Item = &'t String>,
        asked_at: Time,
        poll_interval: Span,
    ) -> Vec<String> {
        for tag in tags {
            let kept = if self.without.contains_key(tag) { &mut self.without } else { &mut self.there };
            let at = kept.entry(tag.clone()).or_insert(asked_at);
            *at = asked_at.max(*at);
        }
        let is_gone = |at: Time| at < asked_at && asked_at.since(at) >= poll_interval;
        self.without.retain(|_, at| !is_gone(*at));
        self.there.iter().filter(|(_, at)| is_gone(**at)).map(|(tag, _)| tag.clone()).collect()
    }

    /// These are gone.
    pub(crate) fn removed(&mut self, tags: &[String]) {
        self.there.retain(|tag, _| !tags.contains(tag));
    }

    /// All that may be there: the manager ends.
    pub(crate) fn take_all(&mut self) -> Vec<String> {
        std::mem::take(&mut self.there).into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Span = Span::from_secs(10);

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000)
    }

    fn tags(tags: &[&str]) -> Vec<String> {
        tags.iter().map(|tag| (*tag).to_owned()).collect()
    }

    fn unwanted(documents: &mut Documents, known: &[&str], seconds: u64) -> Vec<String> {
        documents.unwanted(&tags(known), at(seconds), POLL)
    }

    #[test]
    fn a_document_goes_when_its_allocation_is_neither_listed_nor_known_any_more() {
        let mut documents = Documents::default();
        documents.submitted("pf-1".into(), true, at(0));
        documents.submitted("pf-2".into(), true, at(0));
        assert!(unwanted(&mut documents, &["pf-1", "pf-2"], 20).is_empty());
        assert!(unwanted(&mut documents, &["pf-1"], 29).is_empty(), "listings may be late");
        assert_eq!(unwanted(&mut documents, &["pf-1"], 30), ["pf-2"]);
        assert_eq!(unwanted(&mut documents, &["pf-1"], 40), ["pf-2"], "it could not be removed");
        documents.removed(&tags(&["pf-2"]));
        assert!(unwanted(&mut documents, &["pf-1"], 50).is_empty());
        assert_eq!(documents.take_all(), ["pf-1"]);
    }

    #[test]
    fn a_document_stays_while_a_late_listing_does_not_show_what_was_just_submitted() {
        let mut documents = Documents::default();
        documents.submitted("pf-1".into(), true, at(100));
        // That listing was asked for before the submission, and this one shows what was there ten seconds ago.
        assert!(unwanted(&mut documents, &[], 95).is_empty());
        assert!(unwanted(&mut documents, &[], 109).is_empty());
        // The engine has its answer now, and takes the job for one that may begin however long listings lack it.
        for seconds in 110..300 {
            assert!(unwanted(&mut documents, &["pf-1"], seconds).is_empty());
        }
        // An answer that comes late is of an earlier time.
        assert!(unwanted(&mut documents, &[], 120).is_empty());
        assert_eq!(unwanted(&mut documents, &[], 309), ["pf-1"]);
    }

    #[test]
    fn documents_of_managers_of_before_go_when_their_allocations_do() {
        let mut documents = Documents::default();
        assert!(unwanted(&mut documents, &["pf-1", "pf-2"], 5).is_empty(), "both are in the store");
        assert_eq!(unwanted(&mut documents, &["pf-2"], 15), ["pf-1"]);
    }

    #[test]
    fn a_platform_whose_allocations_have_none_removes_those_of_when_they_had() {
        // It had two nodes, or another adapter, when the first was asked for.
        let mut documents = Documents::default();
        documents.submitted("pf-2".into(), false, at(0));
        assert!(unwanted(&mut documents, &["pf-1", "pf-2"], 5).is_empty());
        assert_eq!(unwanted(&mut documents, &[], 15), ["pf-1"], "the other never had one");
        documents.removed(&tags(&["pf-1"]));
        assert!(documents.take_all().is_empty());
        assert!(documents.without.is_empty(), "what is gone is forgotten");
    }

    #[test]
    fn documents_of_other_platforms_in_the_same_folder_are_not_this_ones_to_remove() {
        let (mut one, mut other) = (Documents::default(), Documents::default());
        one.submitted("pf-1".into(), true, at(0));
        other.submitted("pf-2".into(), true, at(0));
        assert_eq!(unwanted(&mut one, &[], 60), ["pf-1"]);
        assert_eq!(one.take_all(), ["pf-1"]);
        assert_eq!(other.take_all(), ["pf-2"]);
    }
}
