#!/usr/bin/env python3
"""What openstacksdk makes of clouds.yaml, secure.yaml, profiles and OS_* variables.

    python3 clouds.py > clouds.json

needs openstacksdk (the virtual environment that `up` makes has it). Of each row of the table it records what openstacksdk
would send to Keystone, and the region, interfaces, endpoints and certificates it would use; null where it cannot enter.
No row reaches a network. Tests compare with it: adapters/src/openstack/credentials.rs, tests/openstack.rs.
"""

import importlib
import json
import os
import tempfile
import warnings

URL = 'http://keystone:5000'
AUTH = f'auth_url: {URL}, username: ada, password: hush'
FULL = f'{AUTH}, project_name: lab, user_domain_name: Default, project_domain_name: Default'
VARIABLES = {
    'OS_AUTH_URL': URL + '/v3',
    'OS_USERNAME': 'ada',
    'OS_PASSWORD': 'hush',
    'OS_PROJECT_NAME': 'lab',
    'OS_USER_DOMAIN_NAME': 'Default',
    'OS_PROJECT_DOMAIN_NAME': 'Default',
}
HOME = '~/.config/openstack/'
TOKEN = 't1'
SERVICES = ['compute', 'image', 'network', 'placement']
ROWS = []


def row(name, files, cloud='lab', variables=None, **encoding):
    ROWS.append({'name': name, 'files': files, 'variables': variables or {}, 'cloud': cloud, **encoding})


def lab(name, fields, more=None):
    """A row of one file with one cloud."""
    row(name, {'clouds.yaml': f'clouds:\n  lab: {{{fields}}}\n', **(more or {})})


def password(name, written):
    """A password as it is written; every way to write one is a row for an id, too."""
    lab(f'{name} as a password', f'auth: {{auth_url: {URL}, username: ada, password: {written}, project_id: p}}')
    lab(f'{name} as ids', f'auth: {{auth_url: {URL}, user_id: {written}, password: p, project_id: {written}}}')


lab('plain', f'auth: {{{FULL}}}')
row('merge key in auth', {'clouds.yaml': f'''
x: &a {{{AUTH}}}
clouds:
  lab:
    auth:
      <<: *a
      project_name: lab
      password: other
'''})
row('merge key of a whole cloud', {'clouds.yaml': f'''
clouds:
  base: &a {{auth: {{{FULL}}}, region_name: one, interface: internal}}
  lab: {{<<: *a, region_name: two}}
'''})
row('merge key with a list', {'clouds.yaml': f'''
x: &a {{username: ada, password: one}}
y: &b {{password: two, project_name: lab, auth_url: {URL}}}
clouds: {{lab: {{auth: {{<<: [*a, *b]}}}}}}
'''})
row('alias', {'clouds.yaml': f'x: &a {{{FULL}}}\nclouds: {{lab: {{auth: *a}}}}'})
lab('tenant_name', f'auth: {{{AUTH}, tenant_name: lab}}')
lab('tenant_id', f'auth: {{{AUTH}, tenant_id: abc}}')
lab('tenant_name and project_name', f'auth: {{{AUTH}, tenant_name: old, project_name: new}}')
lab('project beside auth', f'auth: {{{AUTH}}}, project_name: lab')
lab('project beside auth and in it', f'auth: {{{AUTH}, project_name: in}}, project_name: beside')
lab('everything beside auth', FULL)
lab('hyphens', f'auth: {{auth-url: {URL}, username: ada, password: hush, project-name: lab, user-domain-id: d}}, region-name: r')
lab('user_name', f'auth: {{auth_url: {URL}, user_name: ada, password: hush, project_name: lab}}')
lab('domain_name of both', f'auth: {{{AUTH}, project_name: lab, domain_name: physics}}')
lab('domain_id of both', f'auth: {{{AUTH}, project_name: lab, domain_id: d1}}')
lab('domain_name beside auth', f'auth: {{{AUTH}, project_name: lab}}, domain_name: physics')
lab('domain_name and one of its own', f'auth: {{{AUTH}, project_name: lab, domain_name: physics, user_domain_name: people}}')
lab('domain_name and an id', f'auth: {{{AUTH}, project_name: lab, domain_name: physics, user_domain_id: d2}}')
lab('domains by id', f'auth: {{{AUTH}, project_name: lab, user_domain_id: a, project_domain_id: b}}')
lab('domains by name and id', f'auth: {{{FULL}, user_domain_id: a}}')
lab('default_domain_name', f'auth: {{{AUTH}, project_name: lab, default_domain_name: physics}}')
lab('default_domain_id', f'auth: {{{AUTH}, project_name: lab, default_domain_id: d1}}')
lab('user and project by id', f'auth: {{auth_url: {URL}, user_id: u, password: hush, project_id: p}}')
lab('project by id and name', f'auth: {{{AUTH}, project_id: p, project_name: lab}}')
for name, written in [
    ('1e5', '1e5'), ('1.5e+3', '1.5e+3'), ('1.5e3', '1.5e3'), ('1.10', '1.10'), ('32 digits', '1234567890' * 3 + '12'),
    ('0123', '0123'), ('0189', '0189'), ('0o17', '0o17'), ('0x1F', '0x1F'), ('0b11', '0b11'), ('1_000', '1_000'),
    ('1:30', '1:30'), ('1:30:15.5', '1:30:15.5'), ('+7', '+7'), ('-0', '-0'), ('007', '007'), ('.5', '.5'), ('5.', '5.'),
    ('.inf', '.inf'), ('1e400.', '1e400.'), ('123456789012345678901.5', '123456789012345678901.5'),
    ('0.00001', '0.00001'), ('quoted', '"0123"'), ('y', 'y'), ('text with a colon', "'a: b'"), ('#', '"a#b c"'),
    ('0:30.5', '0:30.5'), ('1:59:59.999', '1:59:59.999'), ('0:30', '0:30'), ('!!float 1', '!!float 1'),
    ('!!str', '!!str 0123'), ('umlaut', 'päss'), ('a backslash', '"\\\\x\\u00e9"'),
]:
    password(name, written)
for name, url in [('no version', URL), ('a slash', URL + '/'), ('v3', URL + '/v3'), ('v3 and a slash', URL + '/v3/'),
                  ('v2.0', URL + '/v2.0'), ('a path', 'https://host/identity/v3')]:
    lab(f'URL with {name}', f'auth: {{auth_url: "{url}", username: ada, password: hush, project_id: p}}')
for word in ['public', 'publicURL', 'internal', 'internalURL', 'admin']:
    lab(f'interface {word}', f'auth: {{{FULL}}}, interface: {word}')
lab('endpoint_type', f'auth: {{{FULL}}}, endpoint_type: internalURL')
lab('endpoint_type and interface', f'auth: {{{FULL}}}, endpoint_type: internal, interface: admin')
lab('compute_interface', f'auth: {{{FULL}}}, compute_interface: internal, image_endpoint_type: admin')
lab('compute_endpoint_override', f'auth: {{{FULL}}}, compute_endpoint_override: "http://nova:8774/v2.1"')
lab('image_endpoint', f'auth: {{{FULL}}}, image_endpoint: "http://glance"')
lab('region', f'auth: {{{FULL}}}, region_name: one')
lab('region as a list', f'auth: {{{FULL}}}, region_name: [one, two]')
lab('regions in one text', f'auth: {{{FULL}}}, region_name: "one,two"')
lab('regions', f'auth: {{{FULL}}}, regions: [two, one]')
lab('regions with values',
    f'auth: {{{FULL}}}, regions: [{{name: two, values: {{interface: internal, auth: {{username: eve}}}}}}, one]')
lab('region in the URL',
    f'auth: {{auth_url: "https://{{region_name}}.host/v3", username: ada, password: hush, project_id: p}}, region_name: one')
for field, written in [
    ('cacert', '/etc/{region_name}.pem'), ('cert', '/etc/{region_name}/{interface}.pem'), ('verify', '{region_name}'),
    ('compute_endpoint_override', 'http://nova/{region_name}/{{x}}'), ('compute_interface', '{interface}'),
    ('cacert', '/etc/{nothing}.pem'), ('cacert', '/etc/{.pem'), ('cacert', '/etc/}.pem'),
]:
    lab(f'{written} in {field}', f'auth: {{{FULL}}}, region_name: one, {field}: "{written}"')
lab('other fields in the URL',
    'auth: {auth_url: "https://host/{interface}/{x}/v3", username: ada, password: hush, project_id: p}, x: y, region_name: one')
lab('fields that are none in the URL', 'auth: {auth_url: "https://host/{x}/v3", username: ada, password: hush, project_id: p}')
lab('a number as a region', f'auth: {{{FULL}}}, region_name: "7"')
lab('cacert', f'cacert: /etc/ca.pem, auth: {{{FULL}}}')
lab('cacert with ~', f'cacert: ~/ca.pem, auth: {{{FULL}}}')
lab('verify false', f'verify: false, auth: {{{FULL}}}')
lab('verify no', f'verify: no, cacert: /etc/ca.pem, auth: {{{FULL}}}')
for written in ['"no"', '"off"', '"0"', '0', 'n', '"false"', '"true"', '~', 'true', '/etc/ca.pem', '~/ca.pem']:
    lab(f'verify: {written}', f'verify: {written}, auth: {{{FULL}}}')
lab('verify a path, and cacert', f'verify: /etc/one.pem, cacert: /etc/two.pem, auth: {{{FULL}}}')
lab('verify a path, and insecure', f'verify: /etc/one.pem, insecure: true, auth: {{{FULL}}}')
lab('verify false and cacert', f'verify: false, cacert: /etc/ca.pem, auth: {{{FULL}}}')
lab('cert', f'cert: ~/me.pem, auth: {{{FULL}}}')
lab('cert and key', f'cert: /etc/me.pem, key: ~/me.key, auth: {{{FULL}}}')
lab('key', f'key: ~/me.key, auth: {{{FULL}}}')
lab('insecure', f'insecure: true, auth: {{{FULL}}}')
lab('insecure as a text', f'insecure: "True", auth: {{{FULL}}}')
lab('insecure 1', f'insecure: "1", auth: {{{FULL}}}')
APPLICATION = f'auth_url: {URL}, application_credential_secret: hush'
lab('application credential', f'auth_type: v3applicationcredential, auth: {{{APPLICATION}, application_credential_id: a1}}')
lab('application credential by name',
    f'auth_type: v3applicationcredential, auth: {{{APPLICATION}, application_credential_name: a, username: ada, user_domain_id: d}}')
lab('application credential by name and user id',
    f'auth_type: v3applicationcredential, auth: {{{APPLICATION}, application_credential_name: a, user_id: u}}')
lab('v3password', f'auth_type: v3password, auth: {{{FULL}}}')
lab('auth_plugin', f'auth_plugin: v3password, auth: {{{FULL}}}')
lab('v3token', f'auth_type: v3token, auth: {{auth_url: {URL}, token: {TOKEN}, project_id: p}}')
lab('token', f'auth_type: token, auth: {{auth_url: {URL}, token: {TOKEN}, project_name: lab, project_domain_id: d}}')
lab('auth_token', f'auth_type: token, auth: {{auth_url: {URL}, auth_token: {TOKEN}, project_id: p}}')
lab('token beside auth', f'auth_type: v3token, token: {TOKEN}, auth: {{auth_url: {URL}, project_id: p}}')
lab('trust', f'auth: {{{AUTH}, trust_id: t, user_domain_id: default}}')
for suffix in ['yml', 'json']:
    text = {'yml': f'clouds: {{lab: {{auth: {{{FULL}}}}}}}',
            'json': json.dumps({'clouds': {'lab': {'auth': {
                'auth_url': URL, 'username': 'ada', 'password': 12, 'project_id': 1.5}}}})}[suffix]
    row(f'clouds.{suffix}', {f'clouds.{suffix}': text})
    row(f'clouds.{suffix} of the home', {f'{HOME}clouds.{suffix}': text})
row('clouds.yaml before clouds.yml', {
    'clouds.yml': f'clouds: {{lab: {{auth: {{{FULL}, username: eve}}}}}}',
    'clouds.yaml': f'clouds: {{lab: {{auth: {{{FULL}}}}}}}'})
row('here before the home', {
    f'{HOME}clouds.yaml': f'clouds: {{lab: {{auth: {{{FULL}}}}}}}',
    'clouds.yml': f'clouds: {{lab: {{auth: {{{AUTH}, project_name: here, user_domain_id: d}}}}}}'})
row('XDG_CONFIG_HOME', {'~/xdg/openstack/clouds.yaml': f'clouds: {{lab: {{auth: {{{FULL}}}}}}}'},
    variables={'XDG_CONFIG_HOME': '@HOME@/xdg'})
row('OS_CLIENT_CONFIG_FILE', {
    '~/mine.yaml': f'clouds: {{lab: {{auth: {{{FULL}}}}}}}', 'clouds.yaml': 'clouds: {other: {auth: {}}}'},
    variables={'OS_CLIENT_CONFIG_FILE': '@HOME@/mine.yaml'})
BARE = f'auth_url: {URL}, username: ada, project_name: lab, user_domain_name: Default, project_domain_name: Default'
for suffix in ['yaml', 'yml']:
    lab(f'secure.{suffix}', f'auth: {{{BARE}}}', {f'secure.{suffix}': 'clouds: {lab: {auth: {password: hush}}}'})
lab('secure.json', f'auth: {{{BARE}}}', {'secure.json': '{"clouds": {"lab": {"auth": {"password": "hush"}}}}'})
lab('secure.yaml of the home', f'auth: {{{BARE}}}', {HOME + 'secure.yaml': 'clouds: {lab: {auth: {password: hush}}}'})
lab('secure.yaml counts', f'auth: {{{FULL}}}',
    {'secure.yaml': 'clouds: {lab: {auth: {password: 0123}, region_name: two}}'})
row('OS_CLIENT_SECURE_FILE', {
    'clouds.yaml': f'clouds: {{lab: {{auth: {{{BARE}}}}}}}', '~/mine.yaml': 'clouds: {lab: {auth: {password: hush}}}',
    'secure.yaml': 'clouds: {lab: {auth: {password: other}}}'},
    variables={'OS_CLIENT_SECURE_FILE': '@HOME@/mine.yaml'})
lab('a password with braces', f'auth: {{auth_url: {URL}, username: "{{x", password: "{{y}}", project_id: p}}, description: "{{x}}", x: y')
HERE = f'clouds: {{lab: {{auth: {{{BARE}, password: "päss"}}}}}}'
ELSEWHERE = f'clouds: {{lab: {{auth: {{auth_url: {URL}, username: eve, password: other, project_id: home}}}}}}'
for encoding in ['utf-8', 'latin-1', 'utf-16']:
    row(f'clouds.yaml in {encoding}', {'clouds.yaml': HERE, f'{HOME}clouds.yaml': ELSEWHERE}, encoding=encoding)
    row(f'secure.yaml in {encoding}', {'clouds.yaml': ELSEWHERE, 'secure.yaml': 'clouds: {lab: {auth: {password: "ß"}}}'},
        encoding=encoding)
    row(f'clouds-public.yaml in {encoding}', {
        'clouds.yaml': f'clouds: {{lab: {{profile: site, auth: {{{FULL}}}}}}}',
        'clouds-public.yaml': 'public-clouds: {site: {region_name: "Zürich"}}'}, encoding=encoding)
row('secure.yaml alone', {'secure.yaml': f'clouds: {{lab: {{auth: {{{FULL}}}}}}}'})
row('a character beyond U+FFFF', {'clouds.json': json.dumps({'clouds': {'lab': {'auth': {
    'auth_url': URL, 'username': 'ada', 'password': '\\😀', 'project_id': '😀x'}}}})})
PROFILE = 'username: ada, password: hush, project_name: lab, user_domain_id: d, project_domain_id: d'
for profile in ['rackspace', 'otc', 'catalyst', 'ultimum', 'limestonenetworks', 'citycloud', 'ibmcloud']:
    lab(f'profile {profile}', f'profile: {profile}, auth: {{{PROFILE}}}')
lab('profile auro', 'profile: auro, auth: {username: ada, password: hush, project_name: lab}')
lab('profile and a region', f'profile: otc, region_name: eu-nl, auth: {{{PROFILE}}}')
lab('profile by its old name', f'cloud: zetta, auth: {{{PROFILE}}}')
lab('profile and a URL', f'profile: zetta, auth: {{{PROFILE}, auth_url: {URL}}}')
lab('profile nobody knows', f'profile: nobody, auth: {{{FULL}}}')
lab('profile of a file', f'profile: site, auth: {{{PROFILE}}}', {
    'clouds-public.yaml': f'public-clouds: {{site: {{auth: {{auth_url: {URL}/v3, username: eve}}, region_name: one, verify: false}}}}'})
row('the only cloud', {'clouds.yaml': f'clouds: {{any: {{auth: {{{FULL}}}}}}}'}, cloud=None)
row('OS_CLOUD', {'clouds.yaml': f'clouds: {{a: {{auth: {{{FULL}}}}}, b: {{auth: {{{AUTH}, project_id: p}}}}}}'},
    cloud=None, variables={'OS_CLOUD': 'b'})
row('OS_CLOUD and OS_USERNAME', {'clouds.yaml': f'clouds: {{a: {{auth: {{{FULL}}}}}, b: {{auth: {{{AUTH}, project_id: p}}}}}}'},
    cloud=None, variables={'OS_CLOUD': 'b', 'OS_USERNAME': 'eve'})
row('variables', {}, cloud=None, variables=VARIABLES)
row('variables before files', {'clouds.yaml': f'clouds: {{lab: {{auth: {{{AUTH}, project_id: p}}}}}}'}, cloud=None,
    variables=VARIABLES)
row('variables by their name', {}, cloud='envvars', variables=VARIABLES)
row('OS_CLOUD_NAME', {}, cloud='mine', variables={**VARIABLES, 'OS_CLOUD_NAME': 'mine'})
row('OS_TENANT_NAME', {}, cloud=None, variables={
    'OS_AUTH_URL': URL, 'OS_USERNAME': 'ada', 'OS_PASSWORD': 'hush', 'OS_TENANT_NAME': 'lab'})
row('OS_TENANT_ID', {}, cloud=None, variables={
    'OS_AUTH_URL': URL, 'OS_USERNAME': 'ada', 'OS_PASSWORD': '0123', 'OS_TENANT_ID': '1e5'})
for name, value in [('OS_REGION_NAME', 'one'), ('OS_INTERFACE', 'internal'), ('OS_ENDPOINT_TYPE', 'adminURL'),
                    ('OS_CACERT', '~/ca.pem'), ('OS_INSECURE', 'true'), ('OS_INSECURE', '1'),
                    ('OS_COMPUTE_ENDPOINT_OVERRIDE', 'http://nova'), ('OS_AUTH_TYPE', 'v3password')]:
    row(f'{name}={value}', {}, cloud=None, variables={**VARIABLES, name: value})
for name, value in [('OS_VERIFY', 'false'), ('OS_VERIFY', '0'), ('OS_VERIFY', '/etc/ca.pem'), ('OS_CERT', '~/me.pem')]:
    row(f'{name}={value}', {}, cloud=None, variables={**VARIABLES, name: value})
row('OS_PROFILE', {}, cloud=None, variables={
    'OS_PROFILE': 'zetta', 'OS_USERNAME': 'ada', 'OS_PASSWORD': 'hush', 'OS_PROJECT_ID': 'p'})
row('OS_DOMAIN_NAME', {}, cloud=None, variables={
    'OS_AUTH_URL': URL, 'OS_USERNAME': 'ada', 'OS_PASSWORD': 'hush', 'OS_PROJECT_NAME': 'lab', 'OS_DOMAIN_NAME': 'physics'})
row('application credential by variables', {}, cloud=None, variables={
    'OS_AUTH_TYPE': 'v3applicationcredential', 'OS_AUTH_URL': URL, 'OS_APPLICATION_CREDENTIAL_ID': 'a1',
    'OS_APPLICATION_CREDENTIAL_SECRET': 'hush'})
lab('no password', f'auth: {{auth_url: {URL}, username: ada, project_name: lab}}')
lab('no URL', 'auth: {username: ada, password: hush, project_name: lab}')
row('no such cloud', {'clouds.yaml': f'clouds: {{other: {{auth: {{{FULL}}}}}}}'})
row('an empty file', {'clouds.yaml': ''})
row('no YAML', {'clouds.yaml': 'clouds: [lab'})
row('two documents', {'clouds.yaml': f'clouds: {{lab: {{auth: {{{FULL}}}}}}}\n---\nclouds: {{}}'})


class Asked(Exception):
    pass


class Session:
    """Stands for one that would send it."""

    def post(self, url, json=None, **_):
        raise Asked(url, json)


def asked(plugin):
    """What would be sent to Keystone of version 3."""
    base = plugin.auth_url.rstrip('/').removesuffix('/v3').removesuffix('/v2.0') + '/v3'
    if hasattr(plugin, 'create_plugin'):
        plugin = plugin.create_plugin(Session(), (3, 0), base)
    plugin.auth_url = base
    try:
        plugin.get_auth_ref(Session())
    except Asked as it:
        url, request = it.args
    # Of a token that stands in `auth`, openstacksdk 4.4 makes the text `None`, which nobody means.
    if request['auth']['identity'].get('token') == {'id': 'None'}:
        request['auth']['identity']['token']['id'] = TOKEN
    # Where no domain is named, Keystone wants the default one to be.
    identity = request['auth']['identity']
    things = [identity.get('password', {}).get('user'), request['auth'].get('scope', {}).get('project')]
    for thing in things:
        if thing and 'name' in thing:
            thing.setdefault('domain', {'id': 'default'})
    # Nova gives nothing to a token that is for no project.
    if 'application_credential' not in identity and 'scope' not in request['auth']:
        raise ValueError('for no project')
    return url, request


def means(row, home):
    from openstack.config import loader
    importlib.reload(loader)
    config = loader.OpenStackConfig()
    region = config.get_one(cloud=row['cloud'])
    url, request = asked(region.get_auth())
    verify, certificate = region.get_requests_verify_args()
    if not isinstance(certificate, tuple):
        certificate = (certificate, None)
    interfaces = [region.get_interface(service) for service in SERVICES]
    return {
        'url': url,
        'request': request,
        'region': region.region_name or '',
        'interfaces': [interface.removesuffix('URL') for interface in interfaces],
        'overrides': [region.get_endpoint(service) for service in SERVICES],
        # None is what requests verifies by default.
        'verify': True if verify is None else verify if isinstance(verify, bool) else verify.replace(home, '@HOME@'),
        'certificate': [path and path.replace(home, '@HOME@') for path in certificate],
    }


def run(row):
    """In a process of its own: openstacksdk looks around when it is loaded."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            with tempfile.TemporaryDirectory() as folder:
                home, here = folder + '/home', folder + '/here'
                for name in [home, here]:
                    os.mkdir(name)
                for name in [name for name in os.environ if name.startswith(('OS_', 'XDG_'))]:
                    del os.environ[name]
                os.environ['HOME'] = home
                os.environ['XDG_CONFIG_DIRS'] = home + '/none'
                for name, text in row['variables'].items():
                    os.environ[name] = text.replace('@HOME@', home)
                for name, text in row['files'].items():
                    path = name.replace('~', home) if name.startswith('~') else f'{here}/{name}'
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, 'w', encoding=row.get('encoding', 'utf-8')) as file:
                        file.write(text)
                os.chdir(here)
                try:
                    found = means(row, home)
                except Exception:
                    found = None
                os.write(write, json.dumps(found, default=str).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.wait()
    return json.loads(text)


def main():
    warnings.simplefilter('ignore')
    import openstack.config.loader
    import openstack.version
    rows = [{**row, 'means': run(row)} for row in ROWS]
    lines = ',\n'.join(json.dumps(row, ensure_ascii=False) for row in rows)
    print(f'{{"openstacksdk": "{openstack.version.__version__}", "rows": [\n{lines}\n]}}')


if __name__ == '__main__':
    main()
