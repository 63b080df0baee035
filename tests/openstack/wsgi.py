"""Serves one OpenStack API as a process: wsgi.py keystone|placement|glance|neutron PORT STATE.

waitress runs the very WSGI application that a production web server would run.
One worker thread each: SQLite has one writer, and the calls between the services
(glance -> keystone, neutron -> keystone, placement -> keystone) have no cycle.
"""
import os
import sys

service, port, state = sys.argv[1], int(sys.argv[2]), sys.argv[3]
etc = f"{state}/etc/{service}"
sys.argv[1:] = []


def name_process():
    """`down` looks for this name."""
    with open("/proc/self/comm", "w") as comm:
        comm.write(f"os-{service}")


name_process()

if service == "keystone":
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = f"{etc}/keystone.conf"
    from keystone.wsgi.api import application
    from keystone.cmd import bootstrap

    url = f"http://127.0.0.1:{port}/v3"
    bootstrap.backends.load_backends = lambda: None  # the application has loaded them
    admin = bootstrap.Bootstrapper()  # what `keystone-manage bootstrap` runs; idempotent
    admin.admin_username = admin.project_name = admin.admin_role_name = "admin"
    admin.admin_password = os.environ["ADMIN_PASSWORD"]
    admin.service_name, admin.region_id = "keystone", "RegionOne"
    admin.public_url = admin.internal_url = admin.admin_url = url
    admin.bootstrap()
elif service == "placement":
    os.environ["OS_PLACEMENT_CONFIG_DIR"] = etc
    from placement.wsgi.api import application
elif service == "glance":
    os.environ["OS_GLANCE_CONFIG_DIR"] = etc
    os.environ["OS_GLANCE_CONFIG_FILES"] = "glance-api.conf"
    from glance.wsgi.api import application
elif service == "neutron":
    sys.argv += ["--config-file", f"{etc}/neutron.conf"]
    # Without an L3 plugin nothing else loads this model, and GET /ports then fails.
    import neutron.db.models.port_forwarding  # noqa: F401
    import sqlalchemy.orm

    sqlalchemy.orm.configure_mappers()
    from neutron.wsgi.api import application
else:
    sys.exit(f"unknown service {service}")

import waitress

name_process()  # again: Neutron's imports change it
waitress.serve(application, host="127.0.0.1", port=port, threads=1, ident=service)
