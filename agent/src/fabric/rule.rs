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

    /// What makes no sense about it.
    pub(super) fn problem(&self) -> Option<String> {
        if !(0.0..=1.0).contains(&self.loss) {
            return Some(format!("loss {} is no probability; give 0 to 1", self.loss));
        }
        match self.rate_bits {
            // Below this a single packet takes longer than any case lasts.
            Some(rate) if !(rate.is_finite() && rate >= 1.0) => {
                Some(format!("a rate of {rate} bits a second carries nothing; use a partition"))
            }
            _ => None,
        }
    }

    /// Whether packets wait before they are delivered.
    pub(super) fn delays(&self) -> bool {
        self.delay > Nanos::ZERO || self.jitter > Nanos::ZERO || self.rate_bits.is_some()
    }
}
