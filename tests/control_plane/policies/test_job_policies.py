"""What each policy about Jobs accepts and refuses on the real server, from users with the roles of Kubernetes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_manager.api.api_resources import JOBS, WORKLOAD_PRIORITY_CLASSES
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from queue_manager.installation.job_policies import CRON_JOBS
from queue_manager.installation.policy_settings import BUILT_IN_CRON_CONTROLLERS
from queue_manager.jobs.webhook import SubmissionContext, validate_job_update
from tests.control_plane.policies.enforced import job
from tests.control_plane.policies.users import ADMINS, QUEUE, ROLES, Users, give_role, refusal
from tests.waiting import until

pytestmark = pytest.mark.control_plane

Tree = dict[str, Any]
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
CLASS_LABEL = "kueue.x-k8s.io/priority-class"


def labels(**values: str | None) -> Tree:
    keys = {"queue": QUEUE_LABEL, "priority_class": CLASS_LABEL}
    return {"metadata": {"labels": {keys[name]: value for name, value in values.items()}}}


def suspend(value: bool) -> Tree:
    return {"spec": {"suspend": value}}


def webhooks_text(new: Tree, old: Tree) -> str:
    """What the webhook answers to the same change."""
    (error,) = validate_job_update(new, old, SubmissionContext())
    return str(error)


async def running(users: Users, namespace: str, **options: Any) -> Tree:
    """A Job of jane that the queue has started."""
    await users.jane.create(JOBS, namespace, job("a", **options))
    return await users.queue.patch(JOBS, namespace, "a", suspend(False))


# --- creation ----------------------------------------------------------------------------------------------


async def test_a_job_with_a_queue_is_created_suspended(policed: str, users: Users) -> None:
    created = await users.jane.create(JOBS, policed, job("a", suspend=False))
    assert created["spec"]["suspend"] is True


async def test_a_job_without_a_queue_is_created_as_it_is(policed: str, users: Users) -> None:
    created = await users.jane.create(JOBS, policed, job("a", queue=""))
    assert created["spec"]["suspend"] is False
    assert "managedBy" not in created["spec"]


async def test_a_job_that_sets_a_variable_twice_is_created_suspended(policed: str, users: Users) -> None:
    """The policy's change is merged as by server-side apply, to which the variables are a map by their names."""
    body = job("a")
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": v} for v in ("1", "2")]
    created = await users.jane.create(JOBS, policed, body)
    assert created["spec"]["suspend"] is True
    assert (
        created["spec"]["template"]["spec"]["containers"][0]["env"]
        == body["spec"]["template"]["spec"]["containers"][0]["env"]
    )


async def test_nothing_applies_outside_of_the_selected_namespaces(policed: str, users: Users) -> None:
    created = await users.admin.create(JOBS, "default", job("elsewhere"))
    assert created["spec"]["suspend"] is False
    await users.admin.delete(JOBS, "default", "elsewhere", propagation="Background")


async def test_a_job_with_a_queue_gets_our_controller_unless_it_names_one(policed: str, users: Users) -> None:
    created = await users.jane.create(JOBS, policed, job("a"))
    assert created["spec"]["managedBy"] == "sluice/job-controller"
    created = await users.jane.create(JOBS, policed, job("b", managedBy="kubernetes.io/job-controller"))
    assert created["spec"]["managedBy"] == "kubernetes.io/job-controller"


@pytest.mark.parametrize(
    ("manager", "warns"), [("example.com/mine", True), ("sluice/job-controller", False), ("kueue.x-k8s.io/x", True)]
)
async def test_a_manager_that_is_not_known_is_a_warning(policed: str, users: Users, manager: str, warns: bool) -> None:
    body = msgspec.json.encode(job("a", managedBy=manager))
    answer = await users.jane.transport.request(Request("POST", JOBS.path(policed), body=body))
    assert answer.status == 201
    text = f'spec.managedBy: Invalid value: \\"{manager}\\": is neither kubernetes.io/job-controller nor sluice/job-'
    assert (text in answer.headers.get("Warning", "")) is warns


# --- the queue ---------------------------------------------------------------------------------------------


async def test_the_queue_of_a_running_job_is_immutable(policed: str, users: Users) -> None:
    old = await running(users, policed)
    change = labels(queue="other")
    text = await refusal(users.jane.patch(JOBS, policed, "a", change))
    assert text == webhooks_text({**old, **change}, old)
    await users.firefighter.patch(JOBS, policed, "a", change)


async def test_a_running_job_cannot_join_a_queue(policed: str, users: Users) -> None:
    await users.jane.create(JOBS, policed, job("a", queue=""))
    assert "field is immutable" in await refusal(users.jane.patch(JOBS, policed, "a", labels(queue="lq")))


async def test_the_queue_of_a_suspended_job_may_change(policed: str, users: Users) -> None:
    await users.jane.create(JOBS, policed, job("a"))
    changed = await users.jane.patch(JOBS, policed, "a", labels(queue="other"))
    assert changed["metadata"]["labels"][QUEUE_LABEL] == "other"


async def test_a_job_cannot_leave_its_queue(policed: str, users: Users) -> None:
    await users.jane.create(JOBS, policed, job("a"))
    for gone in (None, ""):
        text = await refusal(users.jane.patch(JOBS, policed, "a", labels(queue=gone)))
        assert text == (
            f"metadata.labels[{QUEUE_LABEL}]: Forbidden: cannot be removed from a Job in a queue; delete the Job and "
            "create it without the label, or act as the group sluice:break-glass in an emergency"
        )
    await users.firefighter.patch(JOBS, policed, "a", labels(queue=None))


# --- the priority class ------------------------------------------------------------------------------------


async def test_a_running_job_gets_no_priority_class(policed: str, users: Users) -> None:
    old = await running(users, policed)
    change = {"metadata": {"labels": {**old["metadata"]["labels"], CLASS_LABEL: "default"}}}
    text = await refusal(users.jane.patch(JOBS, policed, "a", change))
    assert text == webhooks_text({**old, **change}, old)


async def test_a_job_does_not_lose_its_priority_class(policed: str, users: Users) -> None:
    old = await users.jane.create(JOBS, policed, job("a", priority_class="default"))
    text = await refusal(users.jane.patch(JOBS, policed, "a", labels(priority_class=None)))
    assert text == webhooks_text({**old, **labels(queue="lq")}, old)
    await users.firefighter.patch(JOBS, policed, "a", labels(priority_class=None))


async def test_a_suspended_job_may_get_a_priority_class(policed: str, users: Users) -> None:
    await users.jane.create(JOBS, policed, job("a"))
    await users.jane.patch(JOBS, policed, "a", labels(priority_class="default"))


async def test_a_class_may_be_used_with_the_verb_use_of_a_role(policed: str, users: Users, api: RestClient) -> None:
    """The Role names one class; another one stays out of reach."""
    create = job("a", priority_class="urgent")
    text = await refusal(users.jane.create(JOBS, policed, create))
    assert text.startswith(f'metadata.labels[{CLASS_LABEL}]: Invalid value: "urgent": you may not use this ')
    await may_use(api, policed, "urgent")
    await until(lambda: users.jane.create(JOBS, policed, create), "the role is in force")
    assert "use" in await refusal(users.jane.patch(JOBS, policed, "a", labels(priority_class="system")))
    await users.firefighter.patch(JOBS, policed, "a", labels(priority_class="system"))
    await users.jane.patch(JOBS, policed, "a", {"metadata": {"annotations": {"any": "change"}}})


async def may_use(api: RestClient, namespace: str, name: str) -> None:
    classes = WORKLOAD_PRIORITY_CLASSES
    rule = {"apiGroups": [classes.group], "resources": [classes.plural], "resourceNames": [name], "verbs": ["use"]}
    await api.create(ROLES, namespace, {"metadata": {"name": f"use-{name}"}, "rules": [rule]})
    await give_role(api, namespace, f"use-{name}", kind="Role")


async def test_the_class_of_a_cron_job_is_checked_when_it_is_written(
    policed: str, users: Users, api: RestClient
) -> None:
    """Its Jobs are created by a controller, which needs no role."""

    def cron(priority_class: str) -> Tree:
        template = job("", priority_class=priority_class)
        body = {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]}
        return {"metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 * * *", "jobTemplate": body}}

    text = await refusal(users.jane.create(CRON_JOBS, policed, cron("urgent")))
    assert text.startswith(f'spec.jobTemplate.metadata.labels[{CLASS_LABEL}]: Invalid value: "urgent": ')
    await may_use(api, policed, "urgent")
    await until(lambda: users.jane.create(CRON_JOBS, policed, cron("urgent")), "the role is in force")
    urgent = cron("system")["spec"]["jobTemplate"]["metadata"]
    await refusal(users.jane.patch(CRON_JOBS, policed, "nightly", {"spec": {"jobTemplate": {"metadata": urgent}}}))
    controller = users.client(BUILT_IN_CRON_CONTROLLERS[0], ADMINS)
    await controller.create(JOBS, policed, job("nightly-1", priority_class="urgent"))


# --- suspension --------------------------------------------------------------------------------------------


async def test_only_the_queue_unsuspends_a_job(policed: str, users: Users) -> None:
    """An administrator of the cluster is refused as well: what he or she wants is an emergency, or a mistake."""
    await users.jane.create(JOBS, policed, job("a"))
    for user in (users.jane, users.admin):
        assert await refusal(user.patch(JOBS, policed, "a", suspend(False))) == (
            f"spec.suspend: Forbidden: only {QUEUE} may unsuspend a Job in a queue, once its Workload is admitted; see "
            f"what it waits for (sluice explain {policed}/a), or act as the group sluice:break-glass in an emergency"
        )
    assert (await users.queue.patch(JOBS, policed, "a", suspend(False)))["spec"]["suspend"] is False


async def test_who_breaks_the_glass_unsuspends_a_job(policed: str, users: Users) -> None:
    await users.jane.create(JOBS, policed, job("a"))
    assert (await users.firefighter.patch(JOBS, policed, "a", suspend(False)))["spec"]["suspend"] is False


async def test_a_job_cannot_leave_the_queue_and_start_in_one_write(policed: str, users: Users) -> None:
    await users.jane.create(JOBS, policed, job("a"))
    change = {**labels(queue=None), **suspend(False)}
    await refusal(users.jane.patch(JOBS, policed, "a", change))
    fresh = await users.jane.create(JOBS, policed, job("b", queue="", suspend=True))
    fresh["metadata"]["labels"][QUEUE_LABEL] = "lq"
    fresh["spec"]["suspend"] = False
    assert "field is immutable" in await refusal(users.jane.replace(JOBS, fresh))


async def test_a_user_may_suspend_and_delete_a_running_job(policed: str, users: Users) -> None:
    await running(users, policed)
    assert (await users.jane.patch(JOBS, policed, "a", suspend(True)))["spec"]["suspend"] is True
    await users.jane.delete(JOBS, policed, "a", propagation="Background")


async def test_a_job_without_a_queue_may_be_unsuspended(policed: str, users: Users) -> None:
    await users.jane.create(JOBS, policed, job("a", queue="", suspend=True))
    assert (await users.jane.patch(JOBS, policed, "a", suspend(False)))["spec"]["suspend"] is False


async def test_no_policy_applies_to_a_job_that_is_being_deleted(policed: str, users: Users) -> None:
    create = job("a", priority_class="default")
    create["metadata"]["finalizers"] = ["example.com/keep"]
    await users.jane.create(JOBS, policed, create)
    await users.jane.delete(JOBS, policed, "a", propagation="Background")
    change = {"metadata": {"labels": None, "finalizers": None}, **suspend(False)}
    await users.jane.patch(JOBS, policed, "a", change)
