import django.db.models.deletion
import memory_app.models.apikeys
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('memory_app', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, verbose_name='name')),
                ('prefix', models.CharField(editable=False, max_length=12, unique=True, verbose_name='prefix')),
                ('digest', models.CharField(editable=False, max_length=64, verbose_name='digest')),
                ('scopes', models.JSONField(default=list, validators=[memory_app.models.apikeys.valid_scopes], verbose_name='scopes')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created at')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires at')),
                ('revoked_at', models.DateTimeField(blank=True, null=True, verbose_name='withdrawn at')),
                ('collections', models.ManyToManyField(blank=True, related_name='api_keys', to='memory_app.memorycollection', verbose_name='collections')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memory_api_keys', to=settings.AUTH_USER_MODEL, verbose_name='user')),
            ],
            options={
                'verbose_name': 'API key',
                'verbose_name_plural': 'API keys',
                'ordering': ('name', 'prefix'),
            },
        ),
    ]
