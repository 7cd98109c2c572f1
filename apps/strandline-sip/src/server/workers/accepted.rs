//! The configuration that all workers have. They read no files: what was found right at the start is handed over to each, and what
//! was found right when it was read again for the last time. So one that takes another's place has the same, whatever stands in the
//! files meanwhile.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use serde_json::Value;

use crate::server::args::Args;
use crate::server::config::{Config, ConfigError, Files};
use crate::server::reload::{Done, Reloaded, counting, differences, read};

/// As bytes of [`Files`].
pub(super) struct Accepted {
    args: Args,
    /// What doesn't change until the server is started again is as it is here.
    started: Vec<u8>,
    /// All else, if the configuration was read again.
    last: RefCell<Option<Rc<[u8]>>>,
    /// What counts, as it stands in the file.
    document: RefCell<toml::Table>,
    done: Done,
}

impl Accepted {
    pub(super) fn new(args: &Args, config: &Config, files: &Files) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            args: args.clone(),
            started: files.to_bytes()?,
            last: RefCell::default(),
            document: RefCell::new(config.document.clone()),
            done: Done::default(),
        }))
    }

    pub(super) fn started(&self) -> &[u8] {
        &self.started
    }

    pub(super) fn last(&self) -> Option<Rc<[u8]>> {
        self.last.borrow().clone()
    }

    /// Reads it again. It counts from now on, for all.
    ///
    /// # Errors
    /// What is wrong with it: then nothing has changed.
    pub(super) fn read_again(&self) -> Result<Reloaded, ConfigError> {
        let result = self.try_read_again();
        self.done.note(&result);
        result
    }

    fn try_read_again(&self) -> Result<Reloaded, ConfigError> {
        let mut files = Files::of_disk();
        let new = read(&self.args, &mut files)?;
        let unreadable =
            |cause| ConfigError::Unreadable { path: self.args.config.clone().unwrap_or_default(), cause };
        let bytes = files.to_bytes().map_err(unreadable)?;
        new.warn();
        let mut document = self.document.borrow_mut();
        let told = differences(&document, &new.document);
        *document = counting(&document, new.document);
        self.last.replace(Some(bytes.into()));
        Ok(told)
    }

    /// How often it was read again, and what was wrong the last time.
    pub(super) fn told(&self) -> Value {
        self.done.told()
    }
}
