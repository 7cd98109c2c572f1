//! The overload control that downstream neighbours are offered in our Via (RFC 7339, RFC 7415).

/// The overload control that a neighbour is offered, from less to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Offer {
    /// No overload control: our Via has no `oc`.
    None,
    /// `loss`, which every implementation of RFC 7339 supports.
    #[default]
    Loss,
    /// `loss` and `rate`. The list has a comma within quotes, which Kamailio's Via parser takes for the end
    /// of the Via.
    LossAndRate,
}

impl Offer {
    /// The parameters of our Via. `alias` asks the peer to send requests back over this connection (RFC 5923
    /// section 8.1).
    pub(super) const fn params(self, alias: bool) -> &'static [u8] {
        match (self, alias) {
            (Self::None, false) => b"",
            (Self::None, true) => b";alias",
            (Self::Loss, false) => b";oc;oc-algo=\"loss\"",
            (Self::Loss, true) => b";alias;oc;oc-algo=\"loss\"",
            (Self::LossAndRate, false) => b";oc;oc-algo=\"loss,rate\"",
            (Self::LossAndRate, true) => b";alias;oc;oc-algo=\"loss,rate\"",
        }
    }
}
