//! The tests of extensions with usrsctp and the kernel, with losses and in both roles.

use strandline_proto::config::{AssociationConfig, StreamCredit, StreamScheduler};

use crate::session::{LOSS_PER_MILLE, Session};
use crate::traffic::{Planned, plan};

/// Offers I-DATA. Messages of several streams alternate fragment by fragment.
pub fn interleaving(association: &mut AssociationConfig) {
    association.extensions.interleaving = true;
    association.stream_scheduler = StreamScheduler::RoundRobin;
}

/// As [`interleaving`], and offers stream credit besides.
pub fn interleaving_with_credit(association: &mut AssociationConfig) {
    interleaving(association);
    association.extensions.stream_credit = Some(StreamCredit::default());
}

/// Names an adaptation layer: 7.
pub fn adaptation_layer(association: &mut AssociationConfig) {
    association.extensions.adaptation_layer = Some(7);
}

impl Session {
    /// Exchanges messages, one plan after the other, while three of a hundred packets are lost in each direction.
    pub fn exchange_under_losses(&mut self, plans: &[Vec<Planned>]) {
        self.driver.lose(LOSS_PER_MILLE);
        for plan in plans {
            self.exchange(plan);
        }
        self.driver.lose(0);
    }

    /// Echoes all messages of a peer that connected, while three of a hundred packets are lost in each direction.
    pub fn echo_under_losses(&mut self, count: usize) {
        self.driver.lose(LOSS_PER_MILLE);
        self.echo(count);
        self.driver.lose(0);
    }

    /// Transfers messages under losses to a peer that interleaves, has skipped the parameter of stream
    /// credit, and reports nothing: it echoes, or sends `count` messages and waits for their echoes.
    ///
    /// # Panics
    /// If the peer has agreed on it, or reports it.
    pub fn skips_stream_credit(mut self, peer_echoes: bool, plans: &[Vec<Planned>], count: usize) {
        let agreed = self.agreed();
        assert_eq!((agreed.interleaving, agreed.stream_credit), (true, false));
        if peer_echoes {
            self.exchange_under_losses(plans);
        } else {
            self.echo_under_losses(count);
        }
        self.nothing_was_reported();
        self.shut_down();
    }

    /// Each side reports the other's adaptation layer (RFC 5061 section 4.2.6), while three of a hundred packets are
    /// lost: this side's is 7, that of the peer, started with `-A 9`, is 9. The peer echoes.
    pub fn indicates_adaptation_layers(mut self) {
        self.driver.lose(LOSS_PER_MILLE);
        self.hears_of_the_adaptation_layer(9);
        self.expect_or_seen("ADAPTATION 7");
        self.exchange(&plan(100, 2000, 3));
        self.driver.lose(0);
        self.shut_down();
    }

    /// As [`finds_the_path_mtu`](Self::finds_the_path_mtu), while three of a hundred packets are lost in each
    /// direction.
    pub fn finds_the_path_mtu_under_losses(mut self) {
        self.driver.lose(LOSS_PER_MILLE);
        self.finds_the_path_mtu();
        self.driver.lose(0);
        self.shut_down();
    }
}
