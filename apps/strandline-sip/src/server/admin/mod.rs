//! Administration of a running server over HTTP: bindings, draining, reloading the configuration. Requests
//! present a token.

mod bindings;

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use strandline_ops::http::{Answer, Reply, Request};

use super::hub::Hub;
use super::reload::Reloader;
use super::status;

/// Handles administrative requests.
pub(super) struct Admin {
    pub(super) hub: Rc<Hub>,
    pub(super) token: String,
    pub(super) reloader: Rc<Reloader>,
    /// How long a response may wait for the store.
    pub(super) store_timeout: Duration,
}

impl Admin {
    /// Creates a handler. Requests must present `token`.
    pub(super) fn new(
        hub: &Rc<Hub>,
        token: String,
        reloader: &Rc<Reloader>,
        store_timeout: Duration,
    ) -> Self {
        Self { hub: Rc::clone(hub), token, reloader: Rc::clone(reloader), store_timeout }
    }

    /// Handles a request, after checking its token.
    pub(super) fn answer(&self, request: &Request) -> Reply {
        if !request.shows(&self.token) {
            return Answer::unauthorized().into();
        }
        self.serve(request)
    }

    /// Handles an authorised request.
    pub(super) fn serve(&self, request: &Request) -> Reply {
        let method = request.method.as_str();
        let answer = match (&request.parts()[..], method) {
            (["status"], "GET") => Answer::json(200, &self.status()),
            (["bindings"], "GET") => bindings::page(&self.hub, request),
            (["bindings", user], "GET") => bindings::show(&self.hub, user),
            (["bindings", user], "DELETE") => {
                return bindings::kick(&self.hub, user, request.value("contact"), self.store_timeout);
            }
            (["drain"], "PUT" | "DELETE") => {
                let draining = method == "PUT";
                self.hub.service.borrow_mut().setup_mut().set_draining(draining);
                tracing::info!(draining, "draining changed by an administrator");
                Answer::json(200, &json!({"draining": draining}))
            }
            (["reload"], "POST") => match self.reloader.reload(&self.hub) {
                Ok(done) => Answer::json(200, &json!({"changed": done.changed, "kept": done.kept})),
                Err(error) => Answer::error(422, &error.to_string(), "the configuration is unchanged"),
            },
            (["status" | "bindings"], _) => Answer::not_allowed("GET, HEAD"),
            (["bindings", _], _) => Answer::not_allowed("GET, HEAD, DELETE"),
            (["drain"], _) => Answer::not_allowed("PUT, DELETE"),
            (["reload"], _) => Answer::not_allowed("POST"),
            _ => Answer::error(404, "not found", "the paths are /status, /bindings, /drain and /reload"),
        };
        answer.into()
    }

    fn status(&self) -> Value {
        let mut all = status::value(&self.hub);
        if let Some(all) = all.as_object_mut() {
            // The history is on the live page.
            all.remove("seconds");
            all.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
            all.insert("reloads".to_owned(), self.reloader.reload_status());
        }
        all
    }
}
