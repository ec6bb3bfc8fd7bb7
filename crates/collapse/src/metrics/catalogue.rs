//! Names and definitions of all metrics.

/// A metric by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricName {
    /// Its key in JSON.
    pub name: &'static str,
    /// Its definition in one line.
    pub about: &'static str,
    /// Its value at full collapse, if there is one.
    pub collapsed: Option<f64>,
}

macro_rules! metrics {
    ($($name:literal, $collapsed:expr, $about:literal;)*) => {
        /// All metrics, in the order of reports. M: centred means of classes, W: rows of the head,
        /// Wc: centred rows of the head.
        pub static METRICS: &[MetricName] = &[
            $(MetricName { name: $name, about: $about, collapsed: $collapsed },)*
        ];
    };
}

metrics! {
    "nc1_pinv", Some(0.0), "tr(Sw Sb⁺) / K";
    "nc1_pinv_sum", Some(0.0), "tr(Sw Sb⁺), without 1/K";
    "nc1_svd", Some(0.0), "as nc1_pinv, with exactly K - 1 directions, if means have as many";
    "nc1_pinv_weighted", Some(0.0), "as nc1_pinv, Sb weighted by samples";
    "nc1_quotient", Some(0.0), "tr Sw / tr Sb";
    "nc1_quotient_class_mean", Some(0.0), "mean of V_k / tr Sb: classes are weighted equally, not samples";
    "cdnv_mean", Some(0.0), "(V_j + V_k) / (2 |μ_j - μ_k|²), mean over pairs";
    "cdnv_max", Some(0.0), "the same, maximum";
    "coincident_pairs", None, "pairs of equal means, excluded from cdnv and gnc2_log";
    "rank_means", None, "rank of M";
    "effective_rank_means", None, "exp of the entropy of the singular values of M";
    "within_trace", None, "tr Sw";
    "between_trace", None, "tr Sb";
    "feature_norm", None, "root of the mean of |x|²";
    "classes_present", None, "K, classes with samples";
    "nc2_norm_cv_M", Some(0.0), "deviation of |m_k| over their mean";
    "nc2_norm_cv_sample_M", Some(0.0), "the same with n - 1";
    "nc2_equiang_std_M", Some(0.0), "deviation of cosines of pairs of M";
    "nc2_maxangle_M", Some(0.0), "mean of |cos + 1/(K-1)| over pairs of M";
    "nc2_etf_err_M", Some(0.0), "distance of M Mᵀ from a simplex frame";
    "nc2_of_err_means", Some(0.0), "distance of the raw means' Gram matrix from an orthogonal frame";
    "gnc2_dist_mean", None, "distance of directions of M, mean over pairs";
    "gnc2_dist_var", Some(0.0), "the same, variance";
    "gnc2_log_mean", None, "-ln of that distance, mean over pairs";
    "gnc2_log_var", Some(0.0), "the same, variance";
    "nc2_etf_floor", None, "smallest distance from a simplex frame with d features";
    "nc2_norm_cv_W", Some(0.0), "deviation of |w_k| over their mean";
    "nc2_norm_cv_sample_W", Some(0.0), "the same with n - 1";
    "nc2_equiang_std_W", Some(0.0), "deviation of cosines of pairs of W";
    "nc2_maxangle_W", Some(0.0), "mean of |cos + 1/(K-1)| over pairs of W";
    "nc2_etf_err_W", Some(0.0), "distance of W Wᵀ from a simplex frame";
    "nc2_of_err_W", Some(0.0), "distance of W Wᵀ from an orthogonal frame";
    "nc2_etf_err_Wc", Some(0.0), "distance of Wc Wcᵀ from a simplex frame";
    "nc3_papyan", Some(0.0), "|W/|W| - M/|M||²";
    "nc3_papyan_Wc", Some(0.0), "the same with Wc";
    "nc3_dual_err", Some(0.0), "distance of W Mᵀ from a simplex frame";
    "nc3_cos_mean", Some(1.0), "cosine of w_k and m_k, mean";
    "nc3_cos_mean_Wc", Some(1.0), "the same with Wc";
    "unc3_cos_var", Some(0.0), "cosine of w_k and m_k, variance";
    "unc3_dot_var", Some(0.0), "product of w_k and m_k, variance with n - 1";
    "nc3_sample_1mcos", Some(0.0), "1 - mean cosine of x and w_y";
    "nc3_sample_1mcos_centred", Some(0.0), "1 - mean cosine of x - μ_G and row y of Wc";
    "nc4_agree", Some(1.0), "share where head and nearest mean agree";
    "nc4_agree_nobias", Some(1.0), "the same, head without bias";
    "nc4_agree_class_mean", Some(1.0), "nc4_agree, mean over classes";
    "acc_lin", None, "accuracy of the head";
    "acc_ncc", None, "accuracy of the nearest mean";
    "nc5_cos", Some(0.0), "mean |cos(μ_k, mean of out-of-distribution features)|";
}
