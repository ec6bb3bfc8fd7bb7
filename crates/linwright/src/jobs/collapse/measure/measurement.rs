//! The measurement: features of a file, sums of earlier rows, or a network.

use super::CollapseMeasure;
use super::result::{CollapseMeasured, MeasuredOf, MeasuringSeconds};
use crate::jobs::collapse::options::{
    Files, check_result, detail_notes, finish, head_of, is_sums, written_sums,
};
use crate::jobs::kit::{Failure, Outcome, Session, outputs};
use linwright_collapse::{
    ClassStatistics, ClassSums, FeatureFile, Features, HeadRef, Keep, LayerReport, NetFeatures,
    Source,
};
use linwright_nets::{Net, OpenedNet, labelled};
use linwright_run::atomic::AtomicFile;
use linwright_run::{Measured, Monitor};
use std::path::Path;

/// Most features of a layer of a network whose scatter is kept: 16 bytes for each pair.
const MOST_SCATTER: usize = 4096;

pub(super) fn run(job: &CollapseMeasure, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let inputs = outputs::inputs_of(job, session);
    check_result(job.output.as_deref(), job.force, &inputs, session)?;
    if let Some(path) = &job.save_sums {
        outputs::file(path, job.force, &inputs, session, is_sums)?;
    }
    if job.force && job.output.is_none() && job.save_sums.is_none() {
        let failure = Failure::usage("--force: nothing is written");
        return Err(failure.hint("give --output or --save-sums"));
    }
    let mut written = None;
    let (of, layers) = match (&job.net, &job.features, &job.sums) {
        (Some(net), ..) => of_net(job, net, session)?,
        (None, Some(features), _) => of_features(job, features, &mut written, session)?,
        (None, None, Some(sums)) => of_sums(job, sums, session)?,
        (None, None, None) => {
            let failure = Failure::usage("nothing to measure");
            return Err(
                failure.hint("give --features FILE, --sums FILE, or --net NET --images FILE")
            );
        }
    };
    session.finish();
    let sums = job.save_sums.as_deref().zip(written);
    let files = Files { result: job.output.as_deref(), sums, force: job.force };
    detail_notes(&layers, session);
    finish(CollapseMeasured { of, layers }, files, session)
}

fn keep(job: &CollapseMeasure) -> Keep {
    if job.traces { Keep::Traces } else { Keep::Scatter }
}

fn of_features(
    job: &CollapseMeasure,
    path: &Path,
    written: &mut Option<AtomicFile>,
    session: &mut Session<'_>,
) -> Result<(MeasuredOf, Vec<LayerReport>), Failure> {
    session.step(&format!("reading {}", path.display()));
    let file = FeatureFile::open(path, job.head.as_deref(), job.classes)?;
    session.step("adding the features");
    let began = session.seconds();
    let sums = match &job.sums {
        Some(path) => read_sums(path, (file.classes, file.features()))?,
        None => {
            let mut sums = ClassSums::checked(file.classes, file.features(), keep(job))?;
            sums.add_all(&file, session)?;
            sums
        }
    };
    let added = session.seconds() - began;
    if let Some(path) = &job.save_sums {
        *written = Some(written_sums(&sums, path, job.force)?);
    }
    let kept = sums.keep();
    let statistics = sums.finish()?;
    session.step("measuring");
    let began = session.seconds();
    let options = job.options.of_layer(kept);
    let source: &dyn Source = &file;
    let head = head_of(&file);
    let mut layer = LayerReport::of("features", &statistics, Some(source), head, options, session)?;
    out_of_distribution(job, &mut layer, &statistics)?;
    let seconds = MeasuringSeconds { sums: added, metrics: session.seconds() - began };
    let features = session.portable(path);
    Ok((MeasuredOf::Features { features, seconds: Some(Measured(seconds)) }, vec![layer]))
}

fn read_sums(path: &Path, expected: (usize, usize)) -> Result<ClassSums, Failure> {
    let sums = ClassSums::read(path)?;
    let found = (sums.classes(), sums.features());
    if found != expected {
        return Err(Failure::usage(format!(
            "{}: sums of {} classes and {} features, but the features have {} and {}",
            path.display(),
            found.0,
            found.1,
            expected.0,
            expected.1
        ))
        .hint("give --classes, or features of the same layer"));
    }
    Ok(sums)
}

/// The metrics of sums without the features.
fn of_sums(
    job: &CollapseMeasure,
    path: &Path,
    session: &mut Session<'_>,
) -> Result<(MeasuredOf, Vec<LayerReport>), Failure> {
    session.step(&format!("reading {}", path.display()));
    let sums = ClassSums::read(path)?;
    let head = match &job.head {
        Some(path) => Some(FeatureFile::head_alone(path)?),
        None => None,
    };
    let head = head.as_ref().map(|(rows, bias)| HeadRef { rows, bias: bias.as_deref() });
    let options = job.options.of_layer(sums.keep());
    let statistics = sums.finish()?;
    let mut layer = LayerReport::of("features", &statistics, None, head, options, session)?;
    layer.notes.push("sums alone: no nc4_agree, no accuracies, no cosines of samples".into());
    out_of_distribution(job, &mut layer, &statistics)?;
    Ok((MeasuredOf::Sums { sums: session.portable(path) }, vec![layer]))
}

fn out_of_distribution(
    job: &CollapseMeasure,
    layer: &mut LayerReport,
    statistics: &ClassStatistics,
) -> Result<(), Failure> {
    if let Some(path) = &job.ood {
        layer.add_out_of_distribution(statistics, &FeatureFile::unlabelled(path)?)?;
    }
    Ok(())
}

fn of_net(
    job: &CollapseMeasure,
    path: &Path,
    session: &mut Session<'_>,
) -> Result<(MeasuredOf, Vec<LayerReport>), Failure> {
    session.step(&format!("loading {}", path.display()));
    let OpenedNet { net, hash } = Net::open(path)?;
    session.step("reading the images");
    let source = job.images.clone().unwrap_or_default();
    let images = source.read()?;
    let examples = labelled(&images)?;
    session.step("running the network");
    let NetFeatures { layers, labels, classes, head } = NetFeatures::of(&net, &examples, session)?;
    let mut reports = Vec::new();
    for (index, layer) in layers.into_iter().enumerate() {
        session.step(&format!("measuring layer {}", layer.name));
        let (name, is_pooled) = (layer.name, layer.is_pooled);
        let own = head.as_ref().filter(|head| head.first == index);
        let own = own.map(|head| HeadRef { rows: &head.weight, bias: Some(&head.bias) });
        let source = Features::new(layer.x, labels.clone());
        let options = job.options.of_layer(match source.features() > MOST_SCATTER {
            true => Keep::Traces,
            false => keep(job),
        });
        let mut report = LayerReport::measure(&name, &source, (classes, own), options, session)?;
        if is_pooled {
            report.notes.push("features are means over places, which are too many".into());
        }
        reports.push(report);
    }
    let of = MeasuredOf::Network {
        net: session.portable(path),
        net_sha256: hash,
        images: session.portable(&source.images),
        images_sha256: images.sha256().to_owned(),
    };
    Ok((of, reports))
}
