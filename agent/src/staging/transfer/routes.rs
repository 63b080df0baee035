//! The routes of requests to servers of the network, for messages: redirections and proxies.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use protocol::net::address::{redirection, shown_alone};
use reqwest::{Url, redirect::Policy};

use crate::staging::lock;

/// The most redirected requests that are remembered; further ones are not mentioned in messages.
const N_SENT_ON_MAX: usize = 1_000;

/// The redirections and proxies.
pub(in crate::staging) struct Routes {
    /// The last redirection of each requested address.
    sent_on: Arc<Mutex<HashMap<Url, Url>>>,
    /// The proxies as the HTTP clients read them from the environment.
    pub(in crate::staging) proxies: Matcher,
}

impl Routes {
    pub(in crate::staging) fn new() -> Routes {
        Routes { sent_on: Arc::default(), proxies: Matcher::from_system() }
    }

    /// Returns the policy that follows redirections to HTTP servers, and remembers them.
    pub(in crate::staging) fn policy(&self) -> Policy {
        let sent_on = Arc::clone(&self.sent_on);
        Policy::custom(move |attempt| match redirection(attempt.url().scheme(), attempt.previous().len()) {
            Ok(()) => {
                let (asked, next) = (attempt.previous().first().map(bare), attempt.url().clone());
                let mut sent_on = lock(&sent_on);
                if let Some(asked) = asked.filter(|_| sent_on.len() < N_SENT_ON_MAX) {
                    sent_on.insert(asked, next);
                }
                drop(sent_on);
                attempt.follow()
            }
            Err(what) => attempt.error(what),
        })
    }

    /// Returns the route of a request; dropping it, also after a cancelled request, forgets its redirections.
    pub(in crate::staging) fn begin(&self, url: &str) -> Route<'_> {
        Route { routes: self, asked: Url::parse(url).ok().as_ref().map(bare) }
    }
}

/// The route of one request.
pub(in crate::staging) struct Route<'r> {
    routes: &'r Routes,
    asked: Option<Url>,
}

impl Route<'_> {
    /// Returns the target, if the server has redirected the request.
    pub(in crate::staging) fn end(&self) -> Option<Url> {
        lock(&self.routes.sent_on).get(self.asked.as_ref()?).cloned()
    }

    /// Returns an error text with the route. It hides the query of the target, which may contain a signature.
    pub(in crate::staging) fn told(&self, what: &str) -> String {
        let end = self.end();
        let to = end.as_ref().map(|end| {
            let mut end = bare(end);
            end.set_query(None);
            format!("it sends on to {end}: ")
        });
        let proxy = end.as_ref().or(self.asked.as_ref()).and_then(|url| {
            let proxy = self.routes.proxies.intercept(&url.as_str().parse::<Uri>().ok()?)?;
            let proxy = shown_alone(&proxy.uri().to_string());
            Some(format!("through the proxy {proxy}, which the pilot's environment names: "))
        });
        format!("{}{}{what}", to.unwrap_or_default(), proxy.unwrap_or_default())
    }
}

impl Drop for Route<'_> {
    fn drop(&mut self) {
        if let Some(asked) = &self.asked {
            lock(&self.routes.sent_on).remove(asked);
        }
    }
}

/// Returns an address without user name, password and fragment, as it is requested.
fn bare(url: &Url) -> Url {
    let mut url = url.clone();
    // HTTP addresses have a host, so these calls cannot fail.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use hyper_util::client::proxy::matcher::Matcher;

    use super::Routes;

    #[test]
    fn a_proxy_is_named_without_its_password_for_what_goes_through_it() {
        let proxies = Matcher::builder().all("http://ann:hush@proxy:3128").no("near.org").build();
        let routes = Routes { proxies, ..Routes::new() };
        let told = |url: &str| routes.begin(url).told("Connection refused");
        assert_eq!(
            told("https://h/x?token=hush"),
            "through the proxy http://proxy:3128/, which the pilot's environment names: Connection refused"
        );
        assert_eq!(told("http://near.org/x"), "Connection refused");
        assert_eq!(told("nowhere"), "Connection refused");
    }
}
