//! What happens to packets on one direction of a link.

use ringbreaker_scenarios::units::Nanos;

/// A rule of one direction. The default lets everything pass at full speed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rule {
    /// Every packet arrives this much later.
    pub delay: Nanos,
    /// On top, each packet's own share between nothing and this, uniform; order is kept.
    pub jitter: Nanos,
    /// Probability that a packet is lost, 0 to 1, each by itself.
    pub loss: f64,
    /// Bits a second at the IP layer; none: no limit.
    pub rate_bits: Option<f64>,
    /// Nothing passes, also not what is on its way.
    pub partition: bool,
}

impl Rule {
    /// Whether packets go straight to their destination.
    pub(super) fn is_pass(&self) -> bool {
        *self == Rule::default()
    }

    /// Whether packets wait before they are delivered.
    pub(super) fn delays(&self) -> bool {
        self.delay > Nanos::ZERO || self.jitter > Nanos::ZERO || self.rate_bits.is_some()
    }
}
