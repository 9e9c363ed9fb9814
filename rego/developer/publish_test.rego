package sandboxd.policies.developer.publish_test

import data.sandboxd.fixture
import data.sandboxd.policies.developer.publish

asks(words) if count(publish.findings) == 1 with input as fixture.run([words])

test_publishing_asks if asks(["npm", "publish"])

test_dry_run_passes if not asks(["npm", "publish", "--dry-run"])

test_building_passes if not asks(["npm", "pack"])
