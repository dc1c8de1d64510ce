use super::*;

#[test]
fn a_change_is_positive_where_it_is_more() {
    assert_eq!(percent_change(4.0, 5.0), 25.0);
    assert_eq!(percent_change(5.0, 4.0), -20.0);
    assert_eq!(share_percent(1.0, 8.0), 12.5);
}

#[test]
fn jobs_per_minute_counts_all_users() {
    assert_eq!(jobs_per_minute(104.0, 500.0, 26.0), 120_000.0); // 52 000 jobs in 26 s
}

#[test]
fn the_job_timing_index_is_cut_and_not_rounded() {
    assert_eq!(timing_index(7.0, 0.0), 100.0);
    assert_eq!(timing_index(10.0, 1.0), 90.0);
    assert_eq!(timing_index(30.0, 1.0), 96.0); // 1 - 1/30 = 0.9667
}

#[test]
fn per_process_per_page_keeps_the_unit() {
    assert_eq!(per_process_per_page(1_024_000.0, 1000.0, 512.0), 2.0);
    assert_eq!(contest_ratio(90.0, 60.0), 1.5);
}

#[test]
fn moments_of_few_values() {
    assert_eq!((mean(&[]), median(&[])), (None, None));
    assert_eq!(spread_percent(&[]), None);
    assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
    assert_eq!(median(&[6.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[6.0, 1.0, 2.0, 4.0]), Some(3.0));
    assert_eq!(median(&[5.0]), Some(5.0));
    assert_eq!(spread_percent(&[110.0, 100.0, 105.0]), Some(10.0));
}
