"""Completes the records of resources that a version without records has written.

The guid of a resource, and what else is recorded of it, are found in the tables of jobs and clusters.
"""

from __future__ import annotations

FILL_RECORDS = """
UPDATE resource SET
    guid = coalesce(
        (SELECT guid FROM job WHERE job.key = resource.key),
        (SELECT guid FROM cluster WHERE cluster.key = resource.key),
        lower(hex(randomblob(16)))),
    more = coalesce(
        (SELECT json_patch(
             json_object(
                 'cluster', coalesce(own.id, job.cluster),
                 'cluster_guid', coalesce(cluster.guid, ''),
                 'output_root', job.output_root,
                 'node_count', job.node_count,
                 'priority', 2 - job.priority),
             CASE WHEN own.spec IS NULL THEN '{}' ELSE json_object('cluster_spec', own.spec) END)
         FROM job LEFT JOIN cluster ON cluster.key = job.cluster
         LEFT JOIN resource AS own ON own.key = job.cluster WHERE job.key = resource.key),
        (SELECT json_object('changed', changed) FROM cluster WHERE cluster.key = resource.key),
        '{}')
WHERE guid = ''
"""
