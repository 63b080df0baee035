//! Declares and forgets profiles of applications.

use crate::engine::{
    interface::{
        RequestId, answer::Answer, declared_profile::Declared, refusal::Refusal, views::profile::ProfileView,
    },
    read::views::Reader,
    record::Record,
    turn::Turn,
};

impl Turn<'_> {
    /// Forgets the measurements of an application on all platforms; answers with them.
    pub(in crate::engine) fn forget(&mut self, request: RequestId, application: String) {
        let Some(profile) = self.profile(&application).filter(|profile| !profile.platforms.is_empty()) else {
            return self.refuse(request, Refusal::NoProfile(application));
        };
        self.live.measured.retain(|(_, of, company), _| *of != application && !company.has(&application));
        self.live.efforts.retain(|(_, of), _| *of != application);
        self.record(Record::ProfileForgotten { application, at: self.now });
        self.answer(request, Answer::Profiles(vec![profile]));
    }
}

impl Turn<'_> {
    /// Declares properties of an application, or removes the declaration; answers with the profile after
    /// that.
    pub(in crate::engine) fn declare(
        &mut self,
        request: RequestId,
        application: String,
        declared: Option<Declared>,
    ) {
        if self.durable.declared().get(&application) != declared.as_ref() {
            self.record(Record::ProfileDeclared { application: application.clone(), declared, at: self.now });
            self.stir_platforms();
        }
        self.answer(request, Answer::Profiles(self.profile(&application).into_iter().collect()));
    }

    fn profile(&self, application: &str) -> Option<ProfileView> {
        let reader = Reader::new(self.settings, self.durable, self.live, self.now);
        reader.profiles().into_iter().find(|profile| profile.application == application)
    }
}
