//! The configuration accepted for all workers. Workers read no files: each receives the configuration that
//! was valid at the start, and the last one that was valid at a reload. A replacement worker therefore has
//! the same configuration as the others, whatever the files contain meanwhile.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use serde_json::Value;
use strandline_ops::{Document, Files, Reload, Reloads, Unreadable};

use crate::server::args::Args;
use crate::server::config::{Config, ConfigError};
use crate::server::reload::{document, log, read};

/// The configuration, as the bytes of [`Files`].
pub(super) struct Accepted {
    args: Args,
    /// The files at the start, which determine what only a restart changes.
    started: Vec<u8>,
    /// The files of the last reload, if any.
    last: RefCell<Option<Rc<[u8]>>>,
    /// The parsed file of the current configuration.
    document: Document,
    reloads: Reloads,
}

impl Accepted {
    pub(super) fn new(args: &Args, config: &Config, files: &Files) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            args: args.clone(),
            started: files.to_bytes()?,
            last: RefCell::default(),
            document: document(config),
            reloads: Reloads::default(),
        }))
    }

    pub(super) fn started(&self) -> &[u8] {
        &self.started
    }

    pub(super) fn last(&self) -> Option<Rc<[u8]>> {
        self.last.borrow().clone()
    }

    /// Reloads the configuration, for all workers.
    ///
    /// # Errors
    /// Returns an error if it is invalid; nothing has changed then.
    pub(super) fn read_again(&self) -> Result<Reload, ConfigError> {
        let result = self.try_read_again();
        self.reloads.note(&result);
        log(&result);
        result
    }

    fn try_read_again(&self) -> Result<Reload, ConfigError> {
        let mut files = Files::of_disk();
        let new = read(&self.args, &mut files)?;
        let unreadable = |cause| Unreadable { path: self.args.config.clone().unwrap_or_default(), cause };
        let bytes = files.to_bytes().map_err(unreadable)?;
        new.warn();
        let differences = self.document.differences(&new.document);
        self.document.replace(new.document);
        self.last.replace(Some(bytes.into()));
        Ok(differences)
    }

    /// The number of reloads, and the last error.
    pub(super) fn reload_status(&self) -> Value {
        self.reloads.status()
    }
}
