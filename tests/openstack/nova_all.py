"""All of Nova in one process: nova_all.py STATE HOST...

The conductor, the scheduler, one nova-compute a HOST and the API are the real
services. They talk through oslo.messaging's in-process transport (fake:///), as
in Nova's own functional tests, so that no RabbitMQ is needed.
"""
import nova.monkey_patch  # noqa: F401  must come first: patches the standard library

import os
import sys
import time

import nova.conf
import os_vif
from nova import config, context, objects, service
from nova.objects import host_mapping
from oslo_log import log as logging
from oslo_service import service as oslo_service

state, hosts = sys.argv[1], sys.argv[2:]
with open("/proc/self/comm", "w") as comm:  # `down` looks for this name
    comm.write("os-nova")

CONF = nova.conf.CONF
config.parse_args(["nova-all", "--config-file", f"{state}/etc/nova/nova.conf"])
logging.setup(CONF, "nova")
objects.register_all()
os_vif.initialize()

# Only now: the manager's decorators read intervals from the configuration.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import process_driver  # noqa: E402
from nova.compute.manager import ComputeManager  # noqa: E402

sys.modules["nova.virt.process_driver"] = process_driver  # where Nova looks for drivers
# One state directory holds one host's identity file; ours are many, and the
# driver derives each one's identity from its name instead.
ComputeManager._ensure_existing_node_identity = lambda self, service_ref: None

# The computes create their resource providers when they start: Keystone's
# catalog must be there by then.
while not os.path.exists(f"{state}/run/catalog-ready"):
    time.sleep(0.05)

services = [
    service.Service.create(host="controller", binary="nova-conductor"),
    service.Service.create(host="controller", binary="nova-scheduler"),
]
for host in hosts:
    services.append(service.Service.create(host=host, binary="nova-compute"))
services.append(service.WSGIService("osapi_compute"))

launcher = oslo_service.ServiceLauncher(CONF)
for one in services:
    launcher.launch_service(one)
admin = context.get_admin_context()
while len(objects.ComputeNodeList.get_all(admin)) < len(hosts):
    time.sleep(0.05)
host_mapping.discover_hosts(admin)  # what `nova-manage cell_v2 discover_hosts` runs
with open(f"{state}/run/nova-ready", "w"):
    pass
launcher.wait()
