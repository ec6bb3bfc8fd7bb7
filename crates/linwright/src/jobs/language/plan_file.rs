//! Plans in files.

use crate::jobs::kit::JobError;
use linwright_compress::Plan;
use linwright_compress::form::RecipeError;
use linwright_compress::plan::read_plan;
use std::path::Path;

const EXAMPLE: &str = "expected {\"edits\": [{\"sites\": {\"lnames\": [\"fc_in\"], \"layers\": \
    [3]}, \"method\": {\"method\": \"laser\"}, \"size\": {\"rate\": 9}}]}";

/// Reads a plan, in JSON or YAML.
pub(in crate::jobs) fn read_plan_file(path: &Path) -> Result<Plan, JobError> {
    read_plan(path).map_err(|error| match error {
        RecipeError::Io { .. } => JobError::new(error.to_string()),
        RecipeError::Form { path, reason, suggestion } => {
            let path = path.display();
            JobError::new(format!("{path} is not a plan of edits: {reason}{suggestion}"))
                .hint(EXAMPLE)
        }
        RecipeError::Value { .. } => JobError::new(error.to_string()),
    })
}
