//! The fabric against the kernel's own veth pair, in turns; and how exact its delays are.

use clap::Args;
use ringbreaker_agent::fabric::bench::{
    BenchOptions, DelayFigures, FabricBench, PathFigures, Round, RoundTrip, run,
};
use ringbreaker_scenarios::units::Nanos;
use serde_json::{Value, json};

use super::{failed, show};
use crate::{cli::args::Listing, error::Error, exit};

/// `bench fabric`.
#[derive(Debug, Args)]
pub(super) struct FabricArgs {
    /// Rounds; each measures both paths
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long one TCP stream is sent in a round
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    transfer: Nanos,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    format: Listing,
}

/// Measures and prints.
pub(super) fn main(args: &FabricArgs) -> Result<u8, Error> {
    let options = BenchOptions {
        rounds: args.rounds,
        transfer: args.transfer.into(),
        ..BenchOptions::default()
    };
    let measured = run(&options).map_err(failed)?;
    show(args.format, &text(&measured), &record(&measured));
    Ok(exit::PASS)
}

fn micros(time: Nanos) -> f64 {
    time.as_secs_f64() * 1e6
}

/// What is missing is infinitely slow; a path without a figure must not look fast.
fn ratio(fabric: f64, veth: f64) -> f64 {
    if veth > 0.0 { fabric / veth } else { f64::NAN }
}

fn text(measured: &FabricBench) -> String {
    let mut text = String::from(
        "# two virtual nodes: fabric without a rule, and a veth pair, in turns\n\
         #        one TCP stream (Gbit/s)    UDP round trip p50 (us)    UDP round trip p99 (us)\n\
         # round  fabric    veth   ratio     fabric    veth   ratio     fabric    veth   ratio\n",
    );
    for (number, Round { fabric, veth }) in measured.rounds.iter().enumerate() {
        let rate = |path: &PathFigures| path.bits_per_second / 1e9;
        let mut columns = vec![(rate(fabric), rate(veth))];
        for quantile in [|r: &RoundTrip| r.p50, |r: &RoundTrip| r.p99] {
            let of = |path: &PathFigures| micros(quantile(&path.round_trip));
            columns.push((of(fabric), of(veth)));
        }
        text.push_str(&format!("{:>7}", number + 1));
        for (fabric, veth) in columns {
            let ratio = ratio(fabric, veth);
            text.push_str(&format!("  {fabric:>6.1}  {veth:>6.1}  {ratio:>6.2}   "));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push_str(
        "# delay both ways: round trip less twice the delay, and how late the fabric delivered\n\
         # delay   error p50 (us)  error p99 (us)   late p50 (us)   late p99 (us)\n",
    );
    for delay in &measured.delays {
        let DelayFigures { asked, lateness, .. } = delay;
        let (p50, p99) = (error(delay, delay.round_trip.p50), error(delay, delay.round_trip.p99));
        text.push_str(&format!(
            "{asked:>7}  {p50:>15.0} {p99:>15.0} {:>15.0} {:>15.0}\n",
            micros(lateness.p50),
            micros(lateness.p99)
        ));
    }
    text
}

/// Microseconds beyond what was asked for, there and back; a negative error would be a packet that
/// came early.
fn error(delay: &DelayFigures, took: Nanos) -> f64 {
    micros(took) - 2.0 * micros(delay.asked)
}

fn record(measured: &FabricBench) -> Value {
    let trip = |r: &RoundTrip| json!({ "p50_ns": r.p50.0, "p99_ns": r.p99.0 });
    let path = |p: &PathFigures| json!({ "bits_per_second": p.bits_per_second, "round_trip": trip(&p.round_trip) });
    let round = |r: &Round| json!({ "fabric": path(&r.fabric), "veth": path(&r.veth) });
    let delay = |d: &DelayFigures| json!({ "asked_ns": d.asked.0, "round_trip": trip(&d.round_trip), "lateness": trip(&d.lateness) });
    json!({
        "rounds": measured.rounds.iter().map(round).collect::<Vec<_>>(),
        "delays": measured.delays.iter().map(delay).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_hold_both_paths_their_ratios_and_the_error_of_a_delay() {
        let path = |gbits: f64, p50, p99| PathFigures {
            bits_per_second: gbits * 1e9,
            round_trip: RoundTrip { p50: Nanos(p50), p99: Nanos(p99) },
        };
        let measured = FabricBench {
            rounds: vec![Round {
                fabric: path(8.0, 60_000, 90_000),
                veth: path(32.0, 20_000, 45_000),
            }],
            delays: vec![DelayFigures {
                asked: Nanos::from_millis(5),
                round_trip: RoundTrip { p50: Nanos(10_150_000), p99: Nanos(10_400_000) },
                lateness: RoundTrip { p50: Nanos(12_000), p99: Nanos(80_000) },
            }],
        };
        let text = text(&measured);
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        let round = ["1", "8.0", "32.0", "0.25", "60.0", "20.0", "3.00", "90.0", "45.0", "2.00"];
        assert!(lines.contains(&round.to_vec()), "{text}");
        assert!(lines.contains(&vec!["5ms", "150", "400", "12", "80"]), "{text}");
        assert_eq!(record(&measured)["delays"][0]["round_trip"]["p50_ns"], 10_150_000);
    }
}
